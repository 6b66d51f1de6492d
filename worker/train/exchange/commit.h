// The commit exchange: one small all-gather that ends each step, by which ranks
// agree that the step is done.
//
// A rank sends its record once it holds every reduced bucket of the step, and
// makes the update only after it has all records. So a rank that has applied
// step s knows that all ranks hold it complete, and no rank is more than one
// step ahead. The same records carry the loss, the ledger of samples, the
// wishes and, now and then, the hash of the parameters. The update itself
// follows from the reduced gradient alone, so a rank that was interrupted
// between the reduction and the records can still make exactly the same one
// later (with the others' norms, where each has a part of the gradient).
//
// Where the optimizer's moments are sharded, "reduced" means: of the parts that
// the rank keeps.
//
// Thread-safety: values and pure functions; ExchangeCommit as its communicator.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_COMMIT_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_COMMIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

// One rank's report at the end of a step.
struct CommitRecord {
  int64_t generation = 0;
  int64_t step = 0;
  double loss_sum = 0;       // over the rank's own samples, before the update
  int64_t sample_count = 0;  // of the rank
  uint64_t sample_hash =
      0;  // wrapping sum of HashSampleId over the rank's samples
  double norm_squared =
      0;  // of the reduced gradient; equal on all ranks, bit for bit, or of the
          // rank's own part of it
  uint64_t parameters_hash =
      0;  // before the update; 0 unless this step compares it
  int64_t payload_sent_bytes = 0;  // since the generation began
  bool wants_stop = false;
  bool wants_drain = false;
  bool wants_leave = false;  // this rank is to leave

  friend bool operator==(const CommitRecord&, const CommitRecord&) = default;
};

// The conclusion from all records together.
struct CommitSummary {
  double mean_loss = 0;
  double norm_squared = 0;
  bool is_finite = true;  // false: all ranks leave this update out
  // Some rank wishes to end after this step, with a checkpoint; or all leave, so
  // nobody may be left who holds it.
  bool stop = false;
  bool drain = false;  // some rank wishes to leave after this step
  bool all_leave = false;
};

// The values that the records of a step must agree with or add up to.
struct CommitExpectation {
  int64_t generation = 0;
  int64_t step = 0;
  int64_t global_batch = 0;
  uint64_t sample_hash = 0;  // of the whole global batch
  int64_t targets_per_sample = 1;
  // Each rank's norm is that of a part: they add up.
  bool are_norms_of_parts = false;
};

// A 64-bit mix of a sample's id (splitmix64's finalizer), so that sums of them
// tell sets of ids apart.
uint64_t HashSampleId(int64_t sample_id);

// Combines the records of all ranks, in rank order.
//   FAILED_PRECONDITION with exit code 3, naming both ranks: generation or
//   step, gradient norm or parameters' hash differ between ranks; or the
//   samples are not exactly those of the global batch
[[nodiscard]] absl::StatusOr<CommitSummary> CombineCommits(
    std::span<const CommitRecord> records, const CommitExpectation& expected);

// Sends `record` to all ranks and returns the records of all ranks, in rank
// order. `words` is scratch that is kept between steps.
[[nodiscard]] absl::StatusOr<std::vector<CommitRecord>> ExchangeCommit(
    Communicator& communicator, const CommitRecord& record,
    MonotonicTime deadline, std::vector<int64_t>& words);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_COMMIT_H_
