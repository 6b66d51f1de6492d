// `ringctl queues`: the shares of the pool, and a new definition of them.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_QUEUES_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_QUEUES_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct QueuesOptions {
  // A file of queues that are to be, in YAML; empty: they stay as they are.
  std::string apply;
};

// Adds the command; `options` must outlive the parsing.
void AddQueuesCommand(FlagSet& flags, QueuesOptions& options);

// Sets the queues if that is wanted, and shows them as they are then.
[[nodiscard]] absl::StatusOr<int> RunQueues(const CommandContext& context,
                                            const QueuesOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_QUEUES_H_
