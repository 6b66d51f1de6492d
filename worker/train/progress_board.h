// ProgressBoard is where the training thread writes how it is doing, and where
// beats read it.
//
// Rates are exponentially weighted over about the last twenty steps.
// Thread-safe.
#ifndef RINGMASTER_WORKER_TRAIN_PROGRESS_BOARD_H_
#define RINGMASTER_WORKER_TRAIN_PROGRESS_BOARD_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/sync/mutex.h"
#include "worker/train/trainer.h"

namespace ringmaster {

// One finished step, as measured on this rank.
struct StepFigures {
  int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  int64_t samples = 0;  // of the global batch
  int64_t payload_sent_bytes = 0;
  absl::Duration duration;
  absl::Duration communication_wait;
  absl::Duration data_wait;
};

class ProgressBoard {
 public:
  void EnterPhase(TrainPhase phase);
  // A generation begins; rates start anew, since they depend on its size.
  void BeginGeneration(int64_t generation, int64_t total_steps);
  void SetSteps(int64_t applied_step, int64_t complete_step);
  void RecordStep(const StepFigures& figures);
  void RecordEvaluation(int64_t step, double loss);
  // Forgets the job.
  void Clear();

  [[nodiscard]] TrainProgress progress() const;

 private:
  mutable Mutex mutex_;
  TrainProgress progress_ GUARDED_BY(mutex_);
  bool has_rates_ GUARDED_BY(mutex_) = false;
  double step_seconds_ GUARDED_BY(mutex_) = 0;
  double communication_seconds_ GUARDED_BY(mutex_) = 0;
  double data_seconds_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_PROGRESS_BOARD_H_
