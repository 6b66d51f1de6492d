// MakeExternalRunner makes the JobRunner that runs a command on each rank: a
// job's ExternalProgram.
//
// A generation is one step, and it is applied once the commands of all ranks
// have ended with 0. Until then the ranks meet a few times a second (RankMeeting): each
// tells whether its command runs, has ended or has failed, and whether it is to
// stop or to leave. So all of them end for the same reason, a command that
// failed because another one did is not blamed for it, and a rank that is
// silent is noticed as in training; of a command that is silent nobody knows
// whether it works.
//
// The first command to fail ends the job, with its exit code and its last
// words, or, as long as ExternalProgram::max_restarts allows, all of them are
// started again. After a halt they are, in the next generation.
//
// Commands that can go on without others (worker/views) do: when one is killed
// by a signal, or its worker is lost, the ranks that are left agree on a view
// without it, and their commands are told. A worker that joins then takes part
// without a command. If all that live take in newcomers, workers that have none
// start that of a lost rank again; once it joins, the next view has it.
#ifndef RINGMASTER_WORKER_EXTERNAL_EXTERNAL_RUNNER_H_
#define RINGMASTER_WORKER_EXTERNAL_EXTERNAL_RUNNER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/port_range.h"
#include "common/logging/log_file.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

class Listener;

struct ExternalRunnerOptions {
  bool is_allowed = false;  // else Prepare is UNAVAILABLE
  int threads = 1;          // for OMP_NUM_THREADS
  // The ports that commands are to listen on; nullopt: any.
  std::optional<PortRange> port_range = {};
  // CommandPlace::python_path.
  std::string python_path = {};
  // The file that every line of output is appended to, as `[RANK] LINE`, and
  // that is rotated as a log is; without a path there is none. The lines go to
  // the log in any case.
  LogFileOptions output_file = {};
  // Between two meetings of the ranks.
  absl::Duration meeting_interval = absl::Milliseconds(250);
  // A command that has lost its connection with another that lives goes on
  // waiting for a view for so long: most that are lost are found out sooner.
  absl::Duration lost_limit = absl::Seconds(10);
};

// `listener` is the process's data plane. It and the clock must outlive the
// runner.
[[nodiscard]] std::unique_ptr<JobRunner> MakeExternalRunner(
    Clock& clock, const Listener& listener, ExternalRunnerOptions options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_EXTERNAL_RUNNER_H_
