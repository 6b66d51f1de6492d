// `ringctl describe`: all that is known about one job or one worker.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_DESCRIBE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_DESCRIBE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

void AddDescribeCommand(FlagSet& flags, std::string& target);

// `target` is a worker or a job: FindTarget. A worker that is gone is described by
// what is left of it: events, and interruptions of jobs.
//   NOT_FOUND  there is no such worker or job, and nothing is left of any
[[nodiscard]] absl::StatusOr<int> RunDescribe(const CommandContext& context,
                                              const std::string& target);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_DESCRIBE_H_
