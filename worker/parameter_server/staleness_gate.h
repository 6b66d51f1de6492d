// StalenessGate says which workers may go on if they do not wait for each other
// at every step (stale synchronous parallel: Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS
// 2013).
//
// It is for one shard: a worker's clock is the last step of which it has pushed
// every bucket. Guarantees: an answer that may go, for step c, leaves the
// worker at most `staleness` steps ahead of the slowest one. A worker that
// leaves blocks nobody. Pure. Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_STALENESS_GATE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_STALENESS_GATE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/parameter_server/staleness.h"

namespace ringmaster {

class StalenessGate {
 public:
  // All of `workers` begin after step `start`. `staleness` >= 0; nullopt:
  // nobody waits.
  StalenessGate(int workers, int buckets, std::optional<int64_t> staleness,
                int64_t start);

  // `worker` pushed a bucket (from 0) of step `step`.
  //   FAILED_PRECONDITION  not the step after its clock, or once more; names
  //                        the rank
  [[nodiscard]] absl::Status Push(int worker, int bucket, int64_t step);
  // The same without a change.
  [[nodiscard]] absl::Status Check(int worker, int bucket, int64_t step) const;

  // `worker` pushes nothing more, and nobody waits for it.
  void Leave(int worker);

  // Returns true if a push of `step` may be answered.
  [[nodiscard]] bool MayAnswer(int64_t step) const {
    return !staleness_.has_value() || slowest_ >= step - *staleness_;
  }
  // A push of `bucket` was answered.
  void NoteAnswer(int bucket, int64_t step);

  // The clock of the slowest worker of those that are left; never goes back.
  [[nodiscard]] int64_t slowest() const { return slowest_; }
  [[nodiscard]] int64_t ClockOf(int worker) const {
    return workers_[static_cast<size_t>(worker)].clock;
  }
  [[nodiscard]] const StalenessCounts& staleness() const { return counts_; }

 private:
  struct Worker {
    int64_t clock = 0;
    int pushed_count = 0;              // of the step after it
    std::vector<int64_t> pushed_step;  // by bucket, the last one
    bool has_left = false;
  };

  void FindSlowest();

  const std::optional<int64_t> staleness_;
  std::vector<Worker> workers_;
  int64_t slowest_ = 0;
  StalenessCounts counts_ = {};
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_STALENESS_GATE_H_
