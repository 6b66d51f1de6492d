// AllReduceSync is data parallelism by all-reduce: gradients are summed among
// the ranks, and every rank makes the same update.
//
// A bucket's reduction starts as soon as BucketReady says so and runs on the
// communicator's thread, so most of it hides behind the backward pass. Commit
// waits for the rest, exchanges commit records, and only then updates.
//
// Where the optimizer's moments are sharded (moment_parts.h), the reduction is
// the first half of an all-reduce, a reduce-scatter, which ends at the owner and
// the mirrors of each part; these update the part, and its parameters are
// gathered by all: the second half.
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
  [[nodiscard]] absl::Status FetchMoments(bool is_wanted) override;
  [[nodiscard]] absl::Status Leave(DoneKind how, bool is_leaver) override;

  [[nodiscard]] int64_t payload_sent_bytes() const override;
  [[nodiscard]] int64_t theory_bytes_per_step() const override;
  [[nodiscard]] absl::Duration AllReduceTime() const override;
  [[nodiscard]] absl::Duration WaitedFor(int rank) const override;
  [[nodiscard]] int peer_ranks() const override;

 private:
  // Starts `request` behind those of `started`, to which it is added; waits for
  // older ones where too many would be queued.
  [[nodiscard]] absl::Status Start(const CollectiveRequest& request,
                                   std::vector<Ticket>& started);
  [[nodiscard]] absl::Status AwaitBuckets();
  [[nodiscard]] CommitExpectation Expected(const LocalStep& local) const;
  // The parts' update after the step's records, which sum up to `summary`.
  [[nodiscard]] absl::Status UpdateParts(std::span<const CommitRecord> records,
                                         const CommitSummary& summary);
  [[nodiscard]] absl::Status CheckMirrored(
      std::span<const CommitRecord> records) const;
  [[nodiscard]] absl::Status GatherParameters();
  // Returns the ranks whose `own` is true.
  [[nodiscard]] absl::StatusOr<std::vector<int>> RanksThat(bool own);
  // The parts that each rank takes over from `leavers`, which alone have them.
  [[nodiscard]] std::vector<std::vector<MomentPart>> PartsOfLeavers(
      const std::vector<int>& leavers, int n) const;
  // Sends the moments of what `wanted` holds beside its rank's parts, by rank.
  [[nodiscard]] absl::Status SendMoments(std::vector<ElemRanges> wanted);
  [[nodiscard]] MonotonicTime Deadline() const {
    return clock_.Now() + wait_timeout_;
  }

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
