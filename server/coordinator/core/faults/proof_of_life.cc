#include "server/coordinator/core/faults/proof_of_life.h"

namespace ringmaster::coordinator {

void ProofOfLife::OnReport(int64_t generation, int64_t step,
                           MonotonicTime now) {
  if (generation != generation_) {
    *this = ProofOfLife();
    generation_ = generation;
  }
  if (step < highest_) return;
  if (step > highest_ && highest_ >= 0) {
    if (step >= highest_ + 2 && highest_ > 0) {
      proven_ = highest_heard_;
    } else if (lower_heard_.has_value()) {
      proven_ = lower_heard_;
    }
    lower_heard_ = highest_heard_;
  }
  highest_ = step;
  highest_heard_ = now;
}

std::optional<MonotonicTime> ProofOfLife::ProvenAt(int64_t generation) const {
  return generation == generation_ ? proven_ : std::nullopt;
}

}  // namespace ringmaster::coordinator
