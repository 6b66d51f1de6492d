// `ringctl cordon`, `drain` and `uncordon`: taking workers out of use, and giving
// them back.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct CordonOptions {
  std::string target;  // the name of a worker or of a host
  std::string reason;
  // How long `drain` waits until none of them has a job; zero: not at all.
  absl::Duration wait;
};

// Adds the commands; `options` must outlive the parsing.
void AddCordonCommands(FlagSet& flags, CordonOptions& options);

// `command`: "cordon", "drain" or "uncordon". Shows the workers that it is about.
//   DEADLINE_EXCEEDED  one still has a job after CordonOptions::wait
//   ABORTED            somebody has lifted the drain meanwhile
[[nodiscard]] absl::StatusOr<int> RunCordon(const CommandContext& context,
                                            const std::string& command,
                                            const CordonOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_
