// `ringctl top`: the pool, its jobs and their ranks on one screen, as they change.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_TOP_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_TOP_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"
#include "server/ctl/commands/status_flags.h"

namespace ringmaster::ctl {

struct TopOptions {
  absl::Duration every = absl::Seconds(1);
  int64_t updates = 0;  // 0: for ever on a terminal, one elsewhere
  StatusOptions shown;
};

// Adds the command; `options` must outlive the parsing.
void AddTopCommand(FlagSet& flags, TopOptions& options);

// Shows the status again and again: on a terminal in place, elsewhere one screen
// after another, as JSON a line each. A coordinator that is away for a while is
// waited for on a terminal; the first status must come in any case.
[[nodiscard]] absl::StatusOr<int> RunTop(const CommandContext& context,
                                         const TopOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_TOP_H_
