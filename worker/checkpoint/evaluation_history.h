// EvaluationHistory is what a job has to remember of its evaluations: which was the
// best, and how many have brought nothing since.
//
// Thread-safety: a value.
#ifndef RINGMASTER_WORKER_CHECKPOINT_EVALUATION_HISTORY_H_
#define RINGMASTER_WORKER_CHECKPOINT_EVALUATION_HISTORY_H_

#include <cstdint>
#include <limits>

namespace ringmaster {

struct EvaluationHistory {
  int64_t last_step = 0;  // of the last evaluation; 0: none
  int64_t best_step = 0;  // of the one with the lowest loss; 0: none had any
  double best_loss = std::numeric_limits<double>::infinity();
  // The loss that the next has to be below by `min_delta` to count as progress.
  double progress_loss = std::numeric_limits<double>::infinity();
  int64_t without_progress = 0;  // evaluations since

  // After `step` the loss was `loss`; one that is NaN is no progress. An evaluation
  // that is not after last_step is known already.
  void Note(int64_t step, double loss, double min_delta) {
    if (step <= last_step) return;
    last_step = step;
    if (loss < best_loss) {
      best_step = step;
      best_loss = loss;
    }
    if (loss < progress_loss - min_delta) {
      progress_loss = loss;
      without_progress = 0;
    } else {
      ++without_progress;
    }
  }

  friend bool operator==(const EvaluationHistory&,
                         const EvaluationHistory&) = default;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_EVALUATION_HISTORY_H_
