#include "worker/data/prefetcher.h"

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/check.h"

namespace ringmaster {

Prefetcher::Prefetcher(const Dataset& dataset,
                       const PermutationSampler& sampler,
                       const Options& options, Clock& clock)
    : dataset_(dataset),
      sampler_(sampler),
      options_(options),
      clock_(clock),
      ids_(static_cast<size_t>(options.max_local_batch)),
      epochs_(ids_.size()) {
  RM_CHECK(options.max_local_batch > 0 &&
               options.max_local_batch <= options.global_batch,
           "bad batch sizes");
  slots_.reserve(kSlots);
  for (int i = 0; i < kSlots; ++i)
    slots_.push_back({Batch(options.max_local_batch, dataset.shape()), {}});
  thread_ = std::thread([this] { FillLoop(); });
}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  work_changed_.NotifyAll();
  thread_.join();
}

absl::Status Prefetcher::Start(int64_t first_step, int rank, int world_size) {
  if (first_step < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefetcher: first step is ", first_step, ", but must be at least 1"));
  }
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefetcher: there is no rank ", rank, " in a world of ", world_size));
  }
  const ElemRange part = PartOfBatch(rank, world_size, options_.global_batch,
                                     options_.sample_group);
  if (part.count > options_.max_local_batch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefetcher: rank ", rank, " of ", world_size, " has ", part.count,
        " samples a step, but buffers hold ", options_.max_local_batch));
  }
  {
    MutexLock lock(mutex_);
    work_ = {work_.run + 1, first_step, part};
    filled_ = 0;
    taken_ = 0;
    is_failed_ = false;
    is_cancelled_ = false;
  }
  work_changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<const Batch*> Prefetcher::Next(MonotonicTime deadline) {
  const Slot* slot = nullptr;
  {
    MutexLock lock(mutex_);
    if (work_.run == 0)
      return absl::FailedPreconditionError(
          "prefetcher: Next was called before Start");
    const MonotonicTime begin = clock_.Now();
    bool is_late = false;
    while (!is_cancelled_ && filled_ == taken_ && !is_late) {
      is_late = !batch_changed_.WaitUntil(mutex_, clock_, deadline);
    }
    total_wait_ += clock_.Now() - begin;
    if (is_cancelled_) return absl::AbortedError("prefetcher: cancelled");
    if (filled_ == taken_) {
      return absl::DeadlineExceededError(absl::StrCat(
          "prefetcher: the batch of step ", work_.step, " is not ready"));
    }
    slot = &slots_[taken_ % kSlots];
    // A failed batch stays where it is: the filling thread made nothing after
    // it, and every Next tells the same.
    if (slot->status.ok()) ++taken_;
  }
  work_changed_.NotifyAll();
  if (!slot->status.ok()) return slot->status;
  return &slot->batch;
}

void Prefetcher::Cancel() {
  {
    MutexLock lock(mutex_);
    is_cancelled_ = true;
  }
  batch_changed_.NotifyAll();
}

void Prefetcher::FillLoop() {
  while (true) {
    Work work;
    Slot* slot = nullptr;
    {
      MutexLock lock(mutex_);
      while (!is_stopping_ && !HasWork()) work_changed_.Wait(mutex_);
      if (is_stopping_) return;
      work = work_;
      slot = &slots_[filled_ % kSlots];
    }
    slot->status = Fill(work, slot->batch);
    {
      MutexLock lock(mutex_);
      if (work_.run != work.run)
        continue;  // started anew meanwhile: this batch is nobody's
      ++filled_;
      ++work_.step;
      // Nothing after a failure: the caller starts again or gives up.
      if (!slot->status.ok()) is_failed_ = true;
    }
    batch_changed_.NotifyAll();
  }
}

absl::Status Prefetcher::Fill(const Work& work, Batch& batch) {
  const auto count = static_cast<size_t>(work.part.count);
  const absl::Span<int64_t> ids = absl::MakeSpan(ids_).subspan(0, count);
  const absl::Span<int64_t> epochs = absl::MakeSpan(epochs_).subspan(0, count);
  sampler_.SamplesOf(work.step, options_.global_batch, work.part, ids);
  sampler_.EpochsOf(work.step, options_.global_batch, work.part, epochs);
  return Annotate(dataset_.FillTraining(ids, epochs, batch),
                  absl::StrCat("batch of step ", work.step));
}

}  // namespace ringmaster
