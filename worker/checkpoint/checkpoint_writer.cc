#include "worker/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/tensor/allocator.h"
#include "common/transport/cancel_token.h"
#include "worker/checkpoint/checkpoint_directory.h"

namespace ringmaster {

class CheckpointWriter::Impl {
 public:
  explicit Impl(const Options& options) : options_(options) {}

  ~Impl() {
    if (!thread_.joinable()) return;
    cancel_.Cancel("the checkpoint writer stops");
    {
      MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  absl::Status Start() {
    // Another checkpoint may be the latest one by the time that it is to be protected.
    options_.protect = ProcessFiles().Canonical(options_.protect);
    RETURN_IF_ERROR(RemoveAbandoned(options_.directory));
    const int64_t bytes = options_.plan->total_elems() *
                          static_cast<int64_t>(sizeof(float)) *
                          (1 + options_.moment_count);
    ASSIGN_OR_RETURN(memory_, allocator_.Allocate(bytes));
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  bool Snapshot(const CheckpointContents& contents) {
    RM_CHECK(contents.plan == options_.plan, "a snapshot of another plan");
    if (!BeginCopy(contents.step)) return false;
    // Nobody else touches these two while the state is kCopying.
    contents_ = contents;
    CopyArenas();
    {
      MutexLock lock(mutex_);
      state_ = State::kWaiting;
    }
    changed_.NotifyAll();
    return true;
  }

  std::vector<CheckpointResult> TakeResults() {
    MutexLock lock(mutex_);
    std::vector<CheckpointResult> taken(
        std::make_move_iterator(results_.begin()),
        std::make_move_iterator(results_.end()));
    results_.clear();
    return taken;
  }

  absl::Status Flush(MonotonicTime deadline) {
    MutexLock lock(mutex_);
    while (state_ != State::kIdle) {
      if (!changed_.WaitUntil(mutex_, *options_.clock, deadline) &&
          state_ != State::kIdle) {
        return absl::DeadlineExceededError(
            absl::StrCat("the checkpoint of step ", step_,
                         " is not yet written to ", options_.directory));
      }
    }
    return absl::OkStatus();
  }

 private:
  // The state of the one snapshot that there can be: being copied by the
  // caller, waiting for the thread, being written by the thread.
  enum class State { kIdle, kCopying, kWaiting, kWriting };

  // Takes the buffer for `step`, or reports that it is not free.
  bool BeginCopy(int64_t step) {
    MutexLock lock(mutex_);
    if (state_ == State::kIdle) {
      state_ = State::kCopying;
      step_ = step;
      return true;
    }
    CheckpointResult skipped;
    skipped.step = step;
    skipped.is_skipped = true;
    skipped.status = absl::UnavailableError(absl::StrCat(
        "the checkpoint of step ", step, " is left out: that of step ", step_,
        " is still being written to ", options_.directory,
        "; write fewer, or to a faster disk"));
    Keep(std::move(skipped));
    return false;
  }

  // Points the spans of contents_ to copies of their elements.
  void CopyArenas() {
    auto* next = static_cast<float*>(memory_.data());
    const float* const end =
        next + memory_.size_bytes() / static_cast<int64_t>(sizeof(float));
    for (absl::Span<const float>* span :
         {&contents_.parameters, &contents_.first_moment,
          &contents_.second_moment}) {
      if (span->empty()) continue;
      RM_CHECK(static_cast<int64_t>(span->size()) <= end - next,
               "more moments than the writer was made for");
      std::memcpy(next, span->data(), span->size() * sizeof(float));
      *span = absl::MakeConstSpan(next, span->size());
      next += span->size();
    }
  }

  void Keep(CheckpointResult result) REQUIRES(mutex_) {
    if (results_.size() == kMaxResults) results_.pop_front();
    results_.push_back(std::move(result));
  }

  bool AwaitSnapshot() {
    MutexLock lock(mutex_);
    while (state_ != State::kWaiting && !is_stopping_) changed_.Wait(mutex_);
    if (is_stopping_) return false;
    state_ = State::kWriting;
    return true;
  }

  void Run() {
    while (AwaitSnapshot()) {
      CheckpointResult result = Write();
      {
        MutexLock lock(mutex_);
        Keep(std::move(result));
        state_ = State::kIdle;
      }
      changed_.NotifyAll();
    }
  }

  CheckpointResult Write() {
    CheckpointResult result;
    result.step = contents_.step;
    result.is_best = contents_.is_best;
    const MonotonicTime begin = options_.clock->Now();
    absl::StatusOr<WrittenCheckpoint> written =
        WriteCheckpoint(options_.directory, contents_,
                        {.keep = options_.keep,
                         .protect = options_.protect,
                         .cancel = &cancel_,
                         .progress = options_.progress});
    result.duration = options_.clock->Now() - begin;
    if (!written.ok()) {
      result.status = std::move(written).status();
      return result;
    }
    result.bytes = written->bytes;
    result.path = std::move(written->path);
    result.removal = std::move(written->removal);
    if (!written->link.ok() && !std::exchange(has_link_failed_, true))
      result.link = std::move(written->link);
    return result;
  }

  Options options_;
  bool has_link_failed_ = false;  // of the thread
  CancelToken cancel_;
  HeapAllocator allocator_;
  // The buffer; state_ says which thread may use it.
  Allocation memory_;
  CheckpointContents contents_;

  Mutex mutex_;
  CondVar changed_;
  State state_ GUARDED_BY(mutex_) = State::kIdle;
  int64_t step_ GUARDED_BY(mutex_) = 0;  // of the snapshot, if not idle
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::deque<CheckpointResult> results_ GUARDED_BY(mutex_);

  // Last: it uses all of the above.
  std::thread thread_;
};

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

CheckpointWriter::~CheckpointWriter() = default;

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const Options& options) {
  RM_CHECK(options.plan != nullptr && options.moment_count >= 0,
           "a writer of nothing");
  auto impl = std::make_unique<Impl>(options);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<CheckpointWriter>(
      new CheckpointWriter(std::move(impl)));
}

bool CheckpointWriter::Snapshot(const CheckpointContents& contents) {
  return impl_->Snapshot(contents);
}

std::vector<CheckpointResult> CheckpointWriter::TakeResults() {
  return impl_->TakeResults();
}

absl::Status CheckpointWriter::Flush(MonotonicTime deadline) {
  return impl_->Flush(deadline);
}

}  // namespace ringmaster
