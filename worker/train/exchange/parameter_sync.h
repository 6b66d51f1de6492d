// ParameterSync takes each bucket's local gradient and makes that bucket's
// parameters ready for the next forward.
//
// One step is: BeginStep; BucketReady for every bucket, in plan order, while
// backward still runs; then Commit. The implementation decides how gradients
// meet (reduced among the ranks, pushed to parameter servers); clipping by the
// global norm is part of the contract.
//
// Thread-safety: on the training thread.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_PARAMETER_SYNC_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_PARAMETER_SYNC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/parameter_server/message.h"
#include "worker/train/exchange/commit.h"

namespace ringmaster {

// A rank's work in a step, for its commit record.
struct LocalStep {
  int64_t step = 0;
  double loss_sum = 0;
  int64_t sample_count = 0;
  uint64_t sample_hash = 0;
  uint64_t global_sample_hash = 0;  // of the whole global batch
  bool compare_parameters = false;  // put the parameters' hash into the record
  bool wants_stop = false;
  bool wants_drain = false;
  bool wants_leave = false;
};

// Returns the record that reports a step to the other ranks.
[[nodiscard]] CommitRecord MakeCommitRecord(int64_t generation,
                                            const LocalStep& local,
                                            double norm_squared,
                                            uint64_t parameters_hash,
                                            int64_t payload_sent_bytes);

struct CommittedStep {
  CommitSummary summary;
  // Within Commit, for the remaining buckets and for the records.
  absl::Duration communication_wait;
  absl::Duration commit;  // of which: for the records
  absl::Duration update;  // the gradient's norm, and the update it is for
  double learning_rate = 0;
  // For a skipped update: the ranks whose gradients were not finite, ascending.
  std::vector<int> non_finite_ranks;
  // False: the ranks' own gradients were not checked.
  bool is_origin_known = true;
};

// A sync's progress beside the communicator's, for beats and verdicts.
struct SyncProgress {
  int64_t completed = 0;      // exchanges since the generation began
  int waiting_for_rank = -1;  // -1: nobody
};

class ParameterSync {
 public:
  virtual ~ParameterSync() = default;

  // Everything that follows the previous step is done: this rank begins the
  // next one. Errors as Commit.
  [[nodiscard]] virtual absl::Status BeginStep() { return absl::OkStatus(); }

  // The local gradient of `bucket` is final: the parameter sync owns that slice
  // of the gradients until Commit returns. An error shows in Commit.
  virtual void BucketReady(int bucket) = 0;

  // Ends the step: waits for every bucket, agrees with all ranks, updates the
  // parameters.
  //   UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED  as Communicator::Wait
  //   FAILED_PRECONDITION                      ranks differ (exit code 3)
  [[nodiscard]] virtual absl::StatusOr<CommittedStep> Commit(
      const LocalStep& local) = 0;

  // Between Commit and BeginStep, on all ranks after the same steps: lets the
  // state have the moments of the step that was committed last, for a
  // checkpoint, if this rank writes one (`is_wanted`). Errors as Commit.
  [[nodiscard]] virtual absl::Status FetchMoments(bool /*is_wanted*/) {
    return absl::OkStatus();
  }

  // Instead of another step: all ranks have agreed to end so, and this one has
  // the moments that it wants. A leaver takes no part in what follows: the
  // others get what it alone has. Errors as Commit.
  [[nodiscard]] virtual absl::Status Leave(DoneKind /*how*/,
                                           bool /*is_leaver*/) {
    return absl::OkStatus();
  }

  // Elements sent to peers in this generation, in bytes; commit records and
  // evaluations too.
  [[nodiscard]] virtual int64_t payload_sent_bytes() const = 0;
  // The part of these that a step's gradients take in theory.
  [[nodiscard]] virtual int64_t theory_bytes_per_step() const = 0;
  // The time that all-reduces of gradients have run; 0 if there are none.
  [[nodiscard]] virtual absl::Duration AllReduceTime() const {
    return absl::ZeroDuration();
  }
  // The time that this rank has waited for `rank`, which is below peer_ranks().
  [[nodiscard]] virtual absl::Duration WaitedFor(int rank) const = 0;
  [[nodiscard]] virtual int peer_ranks() const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_PARAMETER_SYNC_H_
