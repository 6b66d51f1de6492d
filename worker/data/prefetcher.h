// Prefetcher prepares a rank's next batches on a thread of its own, so that a
// step finds its data ready.
//
// Guarantees: at most kDepth batches are ready ahead of the one in use; nothing
// is allocated once constructed; batches come in step order. The thread stops,
// and is joined, in the destructor.
// Thread-safety: Start, Next and the figures belong to one thread; Cancel may
// be called from any.
// Ownership: the data set, the sampler and the clock must outlive this.
// Example:
//   Prefetcher prefetcher(*dataset, sampler,
//                         {.global_batch = 256, .max_local_batch = 256},
//                         clock);
//   RETURN_IF_ERROR(prefetcher.Start(applied_step + 1, rank, world_size));
//   ASSIGN_OR_RETURN(const Batch* batch,
//                    prefetcher.Next(clock.Now() + absl::Seconds(30)));
#ifndef RINGMASTER_WORKER_DATA_PREFETCHER_H_
#define RINGMASTER_WORKER_DATA_PREFETCHER_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/partition.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"

namespace ringmaster {

class Prefetcher {
 public:
  static constexpr int kDepth = 2;

  struct Options {
    int64_t global_batch = 0;  // samples of a step over all ranks, > 0
    int64_t sample_group = 1;  // see PartOfBatch
    int64_t max_local_batch =
        0;  // the largest part that a rank may ever have, in [1, global_batch]
  };

  Prefetcher(const Dataset& dataset, const PermutationSampler& sampler,
             const Options& options, Clock& clock);
  ~Prefetcher();

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Begins, or begins anew, at `first_step` (>= 1) with the part of `rank`
  // among `world_size`. Batches prepared for an earlier Start, the one in use
  // included, are dropped; an earlier Cancel or error is forgotten. Returns at
  // once.
  //   INVALID_ARGUMENT  step or rank out of bounds; the rank's part is larger
  //                     than max_local_batch
  [[nodiscard]] absl::Status Start(int64_t first_step, int rank,
                                   int world_size);

  // The batch of the next step: first_step on the first call after Start, then
  // one step further on each call. It stays valid until the next Next, Start or
  // destruction.
  //   DEADLINE_EXCEEDED    it was not ready at `deadline`; the next call waits
  //                        for the same step
  //   ABORTED              Cancel was called
  //   FAILED_PRECONDITION  Start was not called
  //   else                 the data set's error, with the step; Start again, or
  //                        give up
  [[nodiscard]] absl::StatusOr<const Batch*> Next(MonotonicTime deadline);

  // Makes a waiting Next, and all later ones until the next Start, return
  // ABORTED. Thread-safe.
  void Cancel();

  // The time that Next has spent waiting since construction: the cost of the
  // data.
  absl::Duration total_wait() const { return total_wait_; }

 private:
  // One batch is in use by the caller while up to kDepth wait.
  static constexpr int kSlots = kDepth + 1;

  struct Slot {
    Batch batch;
    absl::Status status;
  };
  // The batch to fill, and the Start that it is for.
  struct Work {
    uint64_t run = 0;  // counts Starts; 0: nothing was started
    int64_t step = 0;  // the next one to fill
    ElemRange part;    // of the global batch
  };

  void FillLoop();
  // Returns true if there is a batch to fill now.
  bool HasWork() const REQUIRES(mutex_) {
    return work_.run > 0 && !is_failed_ && filled_ - taken_ < kDepth;
  }
  absl::Status Fill(const Work& work, Batch& batch);

  // Constant after construction.
  const Dataset& dataset_;
  const PermutationSampler& sampler_;
  const Options options_;
  Clock& clock_;

  // Only for the filling thread.
  std::vector<int64_t> ids_;
  std::vector<int64_t> epochs_;

  // A slot's contents belong to the filling thread while it is slot filled_ %
  // kSlots, and to the caller once it is counted in filled_; the counts change
  // under the mutex, the contents without it. With at most kDepth filled and
  // not taken, the filling thread never writes the slot in use, (taken_ - 1) %
  // kSlots.
  std::vector<Slot> slots_;

  // Only for the caller's thread.
  absl::Duration total_wait_ = absl::ZeroDuration();

  Mutex mutex_;
  CondVar work_changed_;   // wakes the filling thread
  CondVar batch_changed_;  // wakes Next
  Work work_ GUARDED_BY(mutex_);
  int64_t filled_ GUARDED_BY(mutex_) = 0;  // batches filled since Start
  int64_t taken_ GUARDED_BY(mutex_) =
      0;  // batches that Next returned since Start
  bool is_failed_ GUARDED_BY(mutex_) =
      false;  // the last batch filled since Start is an error
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PREFETCHER_H_
