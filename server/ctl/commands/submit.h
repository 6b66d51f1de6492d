// `ringctl submit` and `ringctl watch`.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_SUBMIT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_SUBMIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct SubmitOptions {
  std::string job_file;
  std::vector<std::string> assignments;  // --set
  std::string request_id;
  bool is_dry_run = false;
  bool is_watched = false;
};

// Queues the job; with is_watched also follows it, and returns its exit code.
// A dry run prints the job with its defaults, as the coordinator fills them in,
// or, if none can be reached, as this program does, and says so.
[[nodiscard]] absl::StatusOr<int> RunSubmit(const CommandContext& context,
                                            const SubmitOptions& options);

// Follows a job (id or name) to its end and returns its exit code.
[[nodiscard]] absl::StatusOr<int> RunWatch(const CommandContext& context,
                                           const std::string& job);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_SUBMIT_H_
