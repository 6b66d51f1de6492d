// JobDisplay turns the snapshots of a JobWatch into output: a table redrawn in
// place on a terminal, single lines elsewhere, or JSON, one line per update.
// The model's texts are shown under the table, or as separate lines.
//
// Thread-compatible. `console` and `clock` must outlive it. The destructor
// gives the terminal its cursor back.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_JOB_DISPLAY_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_JOB_DISPLAY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/bench_lines.h"
#include "server/ctl/render/loss_curve.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/screen.h"

namespace ringmaster::ctl {

enum class OutputFormat { kTable, kJson };

class JobDisplay {
 public:
  JobDisplay(Console& console, OutputFormat format, Clock& clock);

  // Shows what is new. A table is redrawn at most ten times a second, a line
  // about a step printed at most once a second.
  void Update(const WatchSnapshot& snapshot);

  // When Update has something to show even without news.
  [[nodiscard]] MonotonicTime next_update() const { return next_update_; }

  // A line that stays: on stderr where stdout is JSON.
  void Note(std::string_view line);

  // Shows how `job` ended.
  void Finish(const v1::Job& job);

 private:
  void UpdateTable(const WatchSnapshot& snapshot);
  void UpdateLines(const WatchSnapshot& snapshot);
  void NoteConnection(const WatchSnapshot& snapshot);
  void PrintStep(const v1::Job& job);
  void PrintSample(const v1::TextSample& sample);
  // The cost of an interruption that ended while the job was watched.
  void PrintRecovery(const v1::Job& job);

  Console& console_;
  const OutputFormat format_;
  Clock& clock_;
  const bool is_live_;
  Screen screen_;

  MonotonicTime next_update_ = MonotonicTime::InfiniteFuture();
  MonotonicTime earliest_draw_;
  MonotonicTime earliest_step_line_;
  int64_t updates_shown_ = 0;
  int64_t step_printed_ = 0;
  int64_t sample_printed_ = -1;  // its step
  bool was_lost_ = false;
  std::string state_line_;
  std::string incident_line_;
  std::string checkpoint_line_;  // the last one told
  std::string resumption_line_;
  // The last interruption that is over; none before the first update.
  std::optional<int> recovery_told_;
  LossCurve losses_;
  BenchLines bench_lines_;
  int64_t loss_step_ = 0;
};

// Returns the exit code of `job`, which is never 0 unless it succeeded.
[[nodiscard]] int ExitCodeOfJob(const v1::Job& job);

// Shows `watch` until it is over, and returns the job as it ended. Ends early
// with the error of `check`, which is called at least once a second.
[[nodiscard]] absl::StatusOr<v1::Job> Follow(
    JobWatch& watch, JobDisplay& display, Bell& bell, Clock& clock,
    const std::function<absl::Status()>& check);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_JOB_DISPLAY_H_
