// ProgressBoard holds the training thread's progress: that thread writes it,
// and beats read it.
//
// Rates are exponentially weighted over about the last twenty steps.
// Thread-safe.
#ifndef RINGMASTER_WORKER_MEMBER_PROGRESS_BOARD_H_
#define RINGMASTER_WORKER_MEMBER_PROGRESS_BOARD_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/sync/mutex.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/collective/algorithm.h"
#include "worker/figures/step_record.h"
#include "worker/member/job_runner.h"
#include "worker/member/process_usage.h"

namespace ringmaster {

// One finished step, as measured on this rank.
struct StepFigures {
  int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t samples = 0;  // of the global batch
  int64_t targets = 0;  // of the global batch
  // Time that this rank's arithmetic would take at the processor's peak; 0 if
  // the peak is not known.
  double peak_seconds = 0;
  int64_t payload_sent_bytes = 0;    // since the generation began
  int64_t payload_theory_bytes = 0;  // likewise
  absl::Duration duration;
  PhaseFigures phases = {};
  absl::Duration commit;  // the part of phases.communication_wait for records
  absl::Duration all_reduce;  // running times of all of the step's, added up
  // The rank that this one waits for most (-1: none), and the time per step
  // that it waits; weighted like the rates.
  int awaited_rank = -1;
  absl::Duration awaited;
};

class ProgressBoard {
 public:
  // Called on the training thread, with the generation; see
  // JobRunner::SetAdvanceCallback. Set it before anything is written.
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) {
    on_advance_ = std::move(on_advance);
  }

  void EnterPhase(TrainPhase phase);
  // A generation begins; rates start anew, since they depend on its size.
  // `gradient_bytes`: of all parameters, as computed.
  void BeginGeneration(int64_t generation, int64_t total_steps,
                       int64_t gradient_bytes = 0);
  // Sets the forecast of a step's all-reduces in this generation.
  void SetAllReduces(absl::Duration predicted,
                     const std::vector<Algorithm>& algorithms);
  void SetSteps(int64_t applied_step, int64_t complete_step);
  void RecordStep(const StepFigures& figures);
  void RecordEvaluation(int64_t step, const EvaluationRecord& record);
  // A checkpoint of `step` is complete.
  void RecordCheckpoint(int64_t step);
  void SetSkippedSamples(int64_t count);
  // Forgets the job, but not its disk progress.
  void Clear();

  // The counter of checkpoint bytes read and written.
  DiskProgress& disk() { return disk_; }

  [[nodiscard]] TrainProgress progress() const;

 private:
  std::function<void(int64_t)> on_advance_ = [](int64_t) {};
  DiskProgress disk_;  // of the process's life, whatever is forgotten
  // Moves the figures that are shown towards `figures`.
  void TakeStep(const StepFigures& figures) REQUIRES(mutex_);
  // Puts into `totals` what the process has used since `start_`.
  void SampleUsage(v1::RankFigures& totals) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  TrainProgress progress_ GUARDED_BY(mutex_);
  // Times of the generation's steps: a moving average, and all added up.
  struct Times {
    absl::Duration duration;
    PhaseFigures phases;
    absl::Duration all_reduce;
  };
  Times average_ GUARDED_BY(mutex_);
  Times sum_ GUARDED_BY(mutex_);
  bool has_rates_ GUARDED_BY(mutex_) = false;
  // The process's usage when the generation began.
  ProcessUsage start_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_PROGRESS_BOARD_H_
