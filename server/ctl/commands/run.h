// `ringctl run`: a command on every rank of a job, for instance a PyTorch
// script, here or on a cluster.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_RUN_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_RUN_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/client.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

struct RunOptions {
  std::vector<std::string> command = {};
  int ranks = 1;
  std::string name = "run";
  int max_restarts = 0;
  std::vector<std::string> environment = {};  // NAME=VALUE
  std::string backend = "ringmaster";  // or "as_is": as the script asks
  std::string working_directory = "";
  std::string bin_dir = "";
  std::string run_dir = "";
};

struct RunContext {
  Console& console;
  Clock& clock;
  // Rung when is_interrupted changes.
  Bell& bell;
  // True once the user wants the job to end: it is cancelled politely.
  std::function<bool()> is_interrupted;
  absl::Duration timeout = absl::Seconds(5);  // of a call
  // null: a coordinator and workers are started here
  Client* cluster = nullptr;
  // For lines of workers that do not answer once the job has ended.
  absl::Duration last_lines_limit = absl::Seconds(5);
};

void AddRunCommand(FlagSet& flags, RunOptions& options);

// Returns the job of `options`. INVALID_ARGUMENT names the flag.
[[nodiscard]] absl::StatusOr<v1::JobSpec> RunJobSpec(const RunOptions& options);

// Runs the job to its end, shows what its ranks print, and returns its exit
// code: 0, that of the command that failed, or 143 if it was interrupted. Call
// on the main thread: children die with the thread that started them.
[[nodiscard]] absl::StatusOr<int> RunRun(const RunContext& context,
                                         const RunOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_RUN_H_
