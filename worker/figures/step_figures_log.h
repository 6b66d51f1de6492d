// StepFiguresLog: keeps the figures of a training job in a directory, in two
// forms: metrics.jsonl for programs (MetricsFile), and an event file for
// TensorBoard (EventFile), where the tags are train/..., speed/...,
// seconds/..., wire/..., cluster/..., evaluation/..., checkpoint/... and, as
// text, sample.
//
// Recording is meant for the training thread: it formats into memory, and the
// files are written at most once a second, but at once after an evaluation or a
// sample, and after kMostUnwrittenSteps steps. A step, evaluation or sample that is
// in metrics.jsonl already is not recorded again, since after a fault nobody else
// knows what the writer before had written. A file that can no longer be written
// (a full disk) fails one call and is then left alone, while the other goes on:
// log that Status and train on. No exceptions. Thread-compatible; `clock` must
// outlive it.
// Example:
//   ASSIGN_OR_RETURN(auto log, StepFiguresLog::Open(
//                        {.directory = "/runs/1", .resume_step = step}, clock));
//   LogIfFailed(log->RecordStep({.step = step, .loss = loss, ...}));
//   LogIfFailed(log->Close());
#ifndef RINGMASTER_WORKER_FIGURES_STEP_FIGURES_LOG_H_
#define RINGMASTER_WORKER_FIGURES_STEP_FIGURES_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "worker/figures/event_file.h"
#include "worker/figures/metrics_file.h"
#include "worker/figures/step_record.h"

namespace ringmaster {

class StepFiguresLog {
 public:
  // The most steps that are lost with this process.
  static constexpr int kMostUnwrittenSteps = 1024;

  struct Options {
    // The directory, made with its parents if it is missing. It belongs to one
    // job: see resume_step.
    std::string directory = "";
    // The last step that training will not repeat; 0 from the start. Later
    // steps in the directory are removed from metrics.jsonl, and TensorBoard is
    // told to forget them.
    int64_t resume_step = 0;
    std::string host = "";  // in the event file's name; "": this host's
    absl::Duration flush_interval = absl::Seconds(1);
    // The time when a figure was recorded, for display only.
    std::function<absl::Time()> wall_time = &absl::Now;
  };

  // Errors have the path and the system's words.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StepFiguresLog>> Open(
      Options options, Clock& clock);

  StepFiguresLog(const StepFiguresLog&) = delete;
  StepFiguresLog& operator=(const StepFiguresLog&) = delete;
  // Writes what is left, as Close does.
  ~StepFiguresLog();

  // Each fails only if it writes the files and that fails; see above.
  [[nodiscard]] absl::Status RecordStep(const StepRecord& record);
  // Records an evaluation after `step`.
  [[nodiscard]] absl::Status RecordEvaluation(int64_t step,
                                              const EvaluationRecord& record);
  // Records the `text` that the model continued `prompt` with.
  [[nodiscard]] absl::Status RecordSample(int64_t step, std::string_view prompt,
                                          std::string_view text);
  // Records that a checkpoint of `step` is on the disk, `duration` after its
  // snapshot.
  [[nodiscard]] absl::Status RecordCheckpoint(int64_t step,
                                              absl::Duration duration,
                                              int64_t bytes);

  // Writes what is left. Recording may go on.
  [[nodiscard]] absl::Status Close();

  // Lines of later steps that Open removed from metrics.jsonl.
  [[nodiscard]] int64_t removed_lines() const {
    return metrics_.removed_lines();
  }
  // See MetricsFile.
  [[nodiscard]] const MetricsFile::LastSteps& last() const {
    return metrics_.last();
  }

 private:
  StepFiguresLog(Options options, Clock& clock, MetricsFile metrics,
                 EventFile events)
      : options_(std::move(options)),
        clock_(clock),
        metrics_(std::move(metrics)),
        events_(std::move(events)),
        last_flush_(clock.Now()) {}

  double UnixSeconds() const;
  absl::Status FlushIfDue();

  const Options options_;
  Clock& clock_;
  MetricsFile metrics_;
  EventFile events_;
  MonotonicTime last_flush_;
  int unwritten_steps_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_STEP_FIGURES_LOG_H_
