// ParameterSync takes each bucket's local gradient and makes that bucket's
// parameters ready for the next forward.
//
// One step is: BucketReady for every bucket, in plan order, while backward
// still runs; then Commit. How gradients meet (reduced among the ranks, pushed
// to a parameter server, sharded) is the implementation's; clipping by the
// global norm is part of the contract.
//
// Thread-safety: on the training thread.
#ifndef RINGMASTER_WORKER_TRAIN_PARAMETER_SYNC_H_
#define RINGMASTER_WORKER_TRAIN_PARAMETER_SYNC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/train/commit.h"

namespace ringmaster {

// What a rank did in a step, for its commit record.
struct LocalStep {
  int64_t step = 0;
  double loss_sum = 0;
  int64_t sample_count = 0;
  uint64_t sample_hash = 0;
  uint64_t global_sample_hash = 0;  // of the whole global batch
  bool compare_parameters = false;  // put the parameters' hash into the record
  bool wants_stop = false;
  bool wants_drain = false;
};

struct CommittedStep {
  CommitSummary summary;
  // Within Commit, for the buckets that were left and for the records.
  absl::Duration communication_wait;
  absl::Duration commit;  // of which: for the records
  absl::Duration update;  // the gradient's norm, and the update it is for
  double learning_rate = 0;
  // Of an update that was left out: whose gradients were not finite, ascending.
  std::vector<int> non_finite_ranks;
};

class ParameterSync {
 public:
  virtual ~ParameterSync() = default;

  // The local gradient of `bucket` is final: the parameter sync owns that slice
  // of the gradients until Commit returns. An error shows in Commit.
  virtual void BucketReady(int bucket) = 0;

  // Ends the step: waits for every bucket, agrees with all ranks, updates the
  // parameters.
  //   UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED  as Communicator::Wait
  //   FAILED_PRECONDITION                      ranks differ (exit code 3)
  [[nodiscard]] virtual absl::StatusOr<CommittedStep> Commit(
      const LocalStep& local) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_PARAMETER_SYNC_H_
