// `ringctl trace`: what each rank of a job did when, for https://ui.perfetto.dev.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_TRACE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct TraceOptions {
  std::string job;
  int64_t first_step = 0;
  int64_t last_step = 0;  // 0: the newest
  std::string file;       // "" or "-": stdout
};

// Writes Chrome-trace JSON. Notes on the error stream which of the steps, or of
// the ranks, it lacks.
//   FAILED_PRECONDITION  nothing is recorded of these steps (any more)
[[nodiscard]] absl::StatusOr<int> RunTrace(const CommandContext& context,
                                           const TraceOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_TRACE_H_
