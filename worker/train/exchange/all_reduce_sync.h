// AllReduceSync is data parallelism by all-reduce: gradients are summed among
// the ranks, and every rank makes the same update.
//
// A bucket's reduction starts as soon as BucketReady says so and runs on the
// communicator's thread, so most of it hides behind the backward pass. Commit
// waits for the rest, exchanges commit records, and only then updates.
//
// Thread-safety: on the training thread. State, communicator and clock must
// outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_SYNC_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_SYNC_H_

#include <cstdint>
#include <vector>

#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "worker/collective/communicator.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

class AllReduceSync final : public ParameterSync {
 public:
  // `wait_timeout` bounds each wait for peers.
  AllReduceSync(int64_t generation, absl::Duration wait_timeout,
                TrainingState& state, Communicator& communicator, Clock& clock,
                Trace& trace);

  void BucketReady(int bucket) override;
  [[nodiscard]] absl::StatusOr<CommittedStep> Commit(
      const LocalStep& local) override;

  [[nodiscard]] int64_t payload_sent_bytes() const override;
  [[nodiscard]] int64_t theory_bytes_per_step() const override;
  [[nodiscard]] absl::Duration AllReduceTime() const override;
  [[nodiscard]] absl::Duration WaitedFor(int rank) const override;
  [[nodiscard]] int peer_ranks() const override;

 private:
  [[nodiscard]] absl::Status AwaitBuckets();

  const int64_t generation_;
  const absl::Duration wait_timeout_;
  TrainingState& state_;
  Communicator& communicator_;
  Clock& clock_;
  Trace& trace_;
  std::vector<Ticket> tickets_;  // of this step's buckets, in plan order
  int64_t first_sequence_ = 0;   // of these
  absl::Status start_error_;     // the first failure of Start
  std::vector<int64_t> record_words_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_ALL_REDUCE_SYNC_H_
