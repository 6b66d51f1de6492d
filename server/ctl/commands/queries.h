// The commands that make one query or one change, and print the answer.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_QUERIES_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_QUERIES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/ctl/commands/context.h"
#include "server/ctl/commands/status_flags.h"

namespace ringmaster::ctl {

[[nodiscard]] absl::StatusOr<int> RunStatus(const CommandContext& context,
                                            const StatusOptions& options);
[[nodiscard]] absl::StatusOr<int> RunWorkers(const CommandContext& context,
                                             const StatusOptions& options);
// First lets the queues be those of `file`, in YAML; empty: they stay as they are.
[[nodiscard]] absl::StatusOr<int> RunQueues(const CommandContext& context,
                                            const std::string& file);
// `job` is an id or a name here and below.
[[nodiscard]] absl::StatusOr<int> RunJob(const CommandContext& context,
                                         const std::string& job);
// Explains the job's state and names the workers that keep it waiting.
[[nodiscard]] absl::StatusOr<int> RunExplain(const CommandContext& context,
                                             const std::string& job);
[[nodiscard]] absl::StatusOr<int> RunCancel(const CommandContext& context,
                                            const std::string& job,
                                            const std::string& reason);
// `priority` is a number in words.
//   INVALID_ARGUMENT  it is none
[[nodiscard]] absl::StatusOr<int> RunPriority(const CommandContext& context,
                                              const std::string& job,
                                              const std::string& priority,
                                              const std::string& reason);
// `workers` are those that the job is to take, as "4" or "2..8".
//   INVALID_ARGUMENT  they are neither
[[nodiscard]] absl::StatusOr<int> RunScale(const CommandContext& context,
                                           const std::string& job,
                                           const std::string& workers,
                                           const std::string& reason);
// Puts the job into another queue.
[[nodiscard]] absl::StatusOr<int> RunMove(const CommandContext& context,
                                          const std::string& job,
                                          const std::string& queue,
                                          const std::string& reason);
// Suspends the job, or resumes it.
[[nodiscard]] absl::StatusOr<int> RunSuspend(const CommandContext& context,
                                             const std::string& job,
                                             bool is_suspended,
                                             const std::string& reason);
// Versions of this program and of the coordinator; the first is printed even
// if there is no second.
[[nodiscard]] absl::StatusOr<int> RunVersion(const CommandContext& context);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_QUERIES_H_
