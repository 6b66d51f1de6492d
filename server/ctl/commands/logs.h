// `ringctl logs`: the last lines that workers, or the coordinator, keep of their
// logs, and those that follow.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_LOGS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_LOGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct LogsOptions {
  std::string target;  // "coordinator", a worker or a job: FindTarget
  bool is_followed = false;
  int64_t tail = 0;               // of each process; 0: all
  std::string since;              // a duration or an RFC 3339 time; "": all
  std::string severity = "info";  // the least
};

void AddLogsCommand(FlagSet& flags, LogsOptions& options);

// Prints the lines, those of a job's members by their time. Says on the error
// stream whose lines could not be had, and why. With is_followed goes on with new
// ones, as JSON an answer a line, until the job has ended, or for ever.
//   INVALID_ARGUMENT     --since is neither a duration nor a time
//   NOT_FOUND            there is no such worker or job
//   FAILED_PRECONDITION  nobody who was asked answered; or FindTarget's
//   UNAVAILABLE          the coordinator ended
[[nodiscard]] absl::StatusOr<int> RunLogs(const CommandContext& context,
                                          const LogsOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_LOGS_H_
