// `ringctl cordon`, `drain` and `uncordon`: taking workers out of use, and giving
// them back.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct CordonOptions {
  std::string target;  // the name of a worker or of a host
  std::string reason;
  // When jobs have to let the workers go of a `drain`: the last counts; none: never. See
  // ParseBy.
  std::vector<std::string> by;
  // How long `drain` waits until none of them has a job; zero: not at all.
  absl::Duration wait;
};

// Adds the commands; `options` must outlive the parsing.
void AddCordonCommands(FlagSet& flags, CordonOptions& options);

// Reads --by: a duration, a time of day in `zone`, of which the next is meant, or an RFC
// 3339 time. Returns how long it is from `now` until then. A time of day that comes twice
// in a night is the next of both.
//   INVALID_ARGUMENT  it is none of them, is past, or never comes
[[nodiscard]] absl::StatusOr<absl::Duration> ParseBy(const std::string& text,
                                                     absl::Time now,
                                                     absl::TimeZone zone);

// `command`: "cordon", "drain" or "uncordon". Shows the workers that it is about.
//   INVALID_ARGUMENT     CordonOptions::by is no time to come
//   FAILED_PRECONDITION  the coordinator does not know CordonOptions::by, or somebody has
//                        drained them anew: the workers are drained without it
//   DEADLINE_EXCEEDED    one still has a job after CordonOptions::wait
//   ABORTED              somebody has lifted the drain meanwhile
[[nodiscard]] absl::StatusOr<int> RunCordon(const CommandContext& context,
                                            const std::string& command,
                                            const CordonOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CORDON_H_
