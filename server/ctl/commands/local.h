// `ringctl local`: a job with its own coordinator, workers and parameter
// servers, all on this machine, without any set-up.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_LOCAL_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_LOCAL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

struct LocalOptions {
  std::string job_file;
  std::vector<std::string> assignments;       // --set
  int workers = 0;                            // 0: as many as the job takes
  int threads = 1;                            // of each worker
  int page_port = 0;                          // 0: any free one; -1: no page
  std::string bin_dir;                        // "": beside this program
  std::string run_dir;                        // "": a new one
  absl::Duration timeout = absl::Seconds(5);  // of a call
  // The time that a cancelled job may take to end.
  absl::Duration cancel_limit = absl::Minutes(5);
};

struct LocalContext {
  Console& console;
  Clock& clock;
  OutputFormat format = OutputFormat::kTable;
  // Rung when is_interrupted changes.
  Bell& bell;
  // True once the user wants the job to end: it is cancelled politely.
  std::function<bool()> is_interrupted;
};

// Runs the job to its end and returns its exit code; 143 if it was interrupted.
// Call on the main thread: children die with the thread that started them.
[[nodiscard]] absl::StatusOr<int> RunLocal(const LocalContext& context,
                                           const LocalOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_LOCAL_H_
