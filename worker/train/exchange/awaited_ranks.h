// AwaitedRanks finds the rank that this one waits for most, over about the last
// twenty steps.
//
// Thread-compatible.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_AWAITED_RANKS_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_AWAITED_RANKS_H_

#include <vector>

#include "absl/time/time.h"
#include "worker/train/exchange/parameter_sync.h"

namespace ringmaster {

class AwaitedRanks {
 public:
  struct Most {
    int rank = -1;  // -1: nobody was waited for
    absl::Duration per_step;
  };

  // A step is done: adds the time that `sync`, always the same, has waited for
  // each rank since the previous call.
  void NoteStep(const ParameterSync& sync);

  [[nodiscard]] Most most() const;

 private:
  struct Wait {
    absl::Duration total;     // at the last call
    absl::Duration per_step;  // exponentially weighted
  };
  std::vector<Wait> waits_;  // by rank
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_AWAITED_RANKS_H_
