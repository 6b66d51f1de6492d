// `ringctl jobs`: the jobs that the coordinator knows, one a line.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_JOBS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct JobsOptions {
  std::vector<std::string> states;  // in lower case; none: all
  bool is_wide = false;             // -o wide
};

void AddJobsFlags(FlagSet& command, JobsOptions& options);

// Newest first.
//   INVALID_ARGUMENT  a state that there is not
[[nodiscard]] absl::StatusOr<int> RunJobs(const CommandContext& context,
                                          const JobsOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_JOBS_H_
