// The thread of NcclEngine: what calls NCCL.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/nccl_engine.h"
#include "worker/device/cuda/cuda_status.h"

namespace ringmaster {
namespace {

// The time between two looks at a busy device (CUDA has no wait with a
// deadline), far below the time of a bucket.
constexpr absl::Duration kPollInterval = absl::Microseconds(20);
// The time between two looks for errors and for a cancellation.
constexpr absl::Duration kErrorInterval = absl::Milliseconds(2);
// The time that peers have to end in an orderly way.
constexpr absl::Duration kFinalizeTimeout = absl::Seconds(2);
// Work queued in compute streams ends by itself, within a pass. Collectives
// that wait for it may begin before their communicators are freed.
constexpr absl::Duration kComputeTimeout = absl::Seconds(30);

absl::StatusOr<absl::Duration> Between(const CudaEvent& begin,
                                       const CudaEvent& end) {
  float milliseconds = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()),
                 "cudaEventElapsedTime"));
  return absl::Milliseconds(milliseconds);
}

}  // namespace

void NcclEngine::ThreadMain() {
  const absl::Status current = options_.device->MakeCurrent();
  if (!current.ok()) Fail(current);
  while (true) {
    switch (AwaitTask()) {
      case Task::kJob:
        RunJob();
        break;
      case Task::kIssue:
        IssueNext();
        break;
      case Task::kPoll:
        if (!PollItems()) AwaitChange(kPollInterval);
        break;
      case Task::kEnd:
        End();
        return;
    }
  }
}

void NcclEngine::AwaitChange(absl::Duration most) {
  Clock& clock = Clock::Real();
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, clock, clock.Now() + most);
}

NcclEngine::Task NcclEngine::AwaitTask() {
  absl::Status cancelled;
  {
    MutexLock lock(mutex_);
    while (true) {
      if (is_closing_ || failure_.is_cancelled()) return Task::kEnd;
      if (job_ != nullptr) return Task::kJob;
      if (issued_count_ < items_.size()) return Task::kIssue;
      if (!items_.empty()) return Task::kPoll;
      if (cancel_ == nullptr) {
        changed_.Wait(mutex_);
        continue;
      }
      if (cancel_->is_cancelled()) break;
      Clock& clock = Clock::Real();
      changed_.WaitUntil(mutex_, clock, clock.Now() + kErrorInterval);
    }
    cancelled = cancel_->status();
  }
  Fail(cancelled);
  return Task::kEnd;
}

void NcclEngine::RunJob() {
  std::shared_ptr<Job> job;
  {
    MutexLock lock(mutex_);
    job = std::move(job_);
    job_ = nullptr;
  }
  const KeepWaiting keep_waiting = [this, &job]() -> absl::Status {
    PollItems();
    {
      MutexLock lock(mutex_);
      RETURN_IF_ERROR(failure_.status());
      if (cancel_ != nullptr) RETURN_IF_ERROR(cancel_->status());
    }
    if (options_.clock->Now() < job->deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", options_.rank, " of generation ", options_.generation, ": ",
        job->what,
        ": not all ranks were there in time (NCCL does not tell which)"));
  };
  const absl::Status status = job->work(keep_waiting);
  if (!status.ok()) Fail(status);
  {
    MutexLock lock(mutex_);
    job->status = status;
    job->is_done = true;
  }
  changed_.NotifyAll();
}

void NcclEngine::IssueNext() {
  Item* item = nullptr;
  {
    MutexLock lock(mutex_);
    item = &items_[issued_count_];  // only this thread takes items away
  }
  // No deadline of its own: the caller of Wait has one, and fails everything
  // when it passes.
  const KeepWaiting keep_waiting = [this] {
    PollItems();
    return failure_.status();
  };
  stream_->WaitFor(*item->ready);
  stream_->Record(*item->events->begin);
  if (comms_.has_value()) {
    const absl::Status launched = comms_->Launch(item->group, item->request,
                                                 stream_->get(), keep_waiting);
    stream_->Note(launched);
    if (!launched.ok()) {
      // A thread of NCCL's may be about to queue it all the same.
      MutexLock lock(mutex_);
      may_queue_more_ = true;
    }
  }
  stream_->Record(*item->events->end);
  if (!stream_->status().ok()) return Fail(stream_->status());
  {
    MutexLock lock(mutex_);
    ++issued_count_;
  }
  changed_.NotifyAll();
}

bool NcclEngine::PollItems() {
  bool is_any_done = false;
  while (!failure_.is_cancelled()) {
    Item item;
    {
      MutexLock lock(mutex_);
      if (issued_count_ == 0) return is_any_done;
      item = items_.front();
    }
    const absl::StatusOr<bool> is_done = item.events->end->IsDone();
    const MonotonicTime now = Clock::Real().Now();
    // An error looked for after the end was seen: a kernel may also end because
    // of it.
    const bool looks =
        comms_.has_value() && (!is_done.ok() || *is_done || now >= next_look_);
    absl::Status error = is_done.status();
    if (looks) {
      next_look_ = now + kErrorInterval;
      error.Update(comms_->AsyncError());
    }
    if (!error.ok()) {
      Fail(error);
      return is_any_done;
    }
    if (!*is_done) {
      if (looks) NoteWhereItIs(item);
      return is_any_done;
    }
    Complete(item);
    is_any_done = true;
  }
  return is_any_done;
}

void NcclEngine::NoteWhereItIs(const Item& item) {
  const absl::StatusOr<bool> has_begun = item.events->begin->IsDone();
  if (!has_begun.ok()) return Fail(has_begun.status());
  MutexLock lock(mutex_);
  totals_.is_in_collective = *has_begun;
  if (*has_begun) RecordBegun();
}

void NcclEngine::Complete(const Item& item) {
  const absl::StatusOr<absl::Duration> ran =
      Between(*item.events->begin, *item.events->end);
  // An event of the caller's has no time.
  const absl::StatusOr<absl::Duration> since_ready =
      item.ready == item.events->ready.get()
          ? Between(*item.ready, *item.events->end)
          : ran;
  if (!ran.ok() || !since_ready.ok()) {
    return Fail(ran.ok() ? since_ready.status() : ran.status());
  }
  Record(item, *since_ready, *ran);
  {
    MutexLock lock(mutex_);
    if (failure_.is_cancelled()) return;
    totals_.completed = item.sequence;
    totals_.is_in_collective = false;
    totals_.traffic.sent_bytes += item.traffic.sent_bytes;
    totals_.traffic.received_bytes += item.traffic.received_bytes;
    if (item.request.op == CollectiveOp::kAllReduce) {
      totals_.all_reduce += *ran;
    }
    items_.pop_front();
    --issued_count_;
    // Held by `item` alone: no stream is about to wait for it.
    if (item.events.use_count() == 1) spare_events_.push_back(item.events);
  }
  changed_.NotifyAll();
}

void NcclEngine::RecordQueued(Item& item) {
  if (options_.trace == nullptr) return;
  const CollectiveRequest& request = item.request;
  item.span.name = CollectiveOpName(request.op);
  item.span.track = "communication";
  item.span.step = request.trace_step;
  item.span.bucket = request.trace_label;
  item.span.bytes = request.buffer.count * SizeOf(request.buffer.dtype);
  item.span.ready = item.started;
  item.span.state = SpanState::kQueued;
  item.span.sequence = item.sequence;
  item.span.generation = options_.generation;
  item.span.is_on_device = true;
  item.place = options_.trace->Open(item.span);
}

void NcclEngine::RecordBegun() {
  Item& item = items_.front();
  if (options_.trace == nullptr || item.span.state != SpanState::kQueued)
    return;
  item.span.start = options_.clock->Now();
  item.span.state = SpanState::kUnderWay;
  options_.trace->Replace(item.place, item.span);
}

void NcclEngine::Record(const Item& item, absl::Duration since_ready,
                        absl::Duration ran) {
  if (options_.trace == nullptr) return;
  TraceSpan span = item.span;
  span.end = options_.clock->Now();
  span.start = span.end - ran;
  // Events are measured one by one, and rounded.
  span.ready = std::min(span.end - since_ready, span.start);
  span.state = SpanState::kEnded;
  options_.trace->Replace(item.place, span);
}

void NcclEngine::RecordBrokenOff() {
  MutexLock lock(mutex_);
  if (options_.trace == nullptr) return;
  for (Item& item : items_) {
    if (item.span.state != SpanState::kUnderWay) continue;
    item.span.end = options_.clock->Now();
    item.span.state = SpanState::kBrokenOff;
    options_.trace->Replace(item.place, item.span);
  }
}

void NcclEngine::End() {
  RecordBrokenOff();
  if (comms_.has_value()) {
    const MonotonicTime limit = Clock::Real().Now() + kFinalizeTimeout;
    const KeepWaiting keep_waiting = [this, limit]() -> absl::Status {
      RETURN_IF_ERROR(failure_.status());
      if (Clock::Real().Now() < limit) return absl::OkStatus();
      return absl::DeadlineExceededError("peers do not end");
    };
    const MonotonicTime begin = Clock::Real().Now();
    const bool is_orderly =
        !failure_.is_cancelled() && comms_->Finalize(keep_waiting).ok();
    if (!is_orderly) AwaitCompute();
    NoteFreeing();
    const MonotonicTime freeing = Clock::Real().Now();
    absl::Status freed;
    if (is_orderly) {
      freed = comms_->Destroy();
    } else {
      comms_->Abort();
    }
    LogEvent(
        LogLevel::kDebug, "nccl.freed",
        {{"generation", options_.generation},
         {"orderly", is_orderly},
         {"ended_in", absl::FormatDuration(freeing - begin)},
         {"freed_in", absl::FormatDuration(Clock::Real().Now() - freeing)}});
    if (!freed.ok()) {
      LogEvent(LogLevel::kWarning, "nccl.not_freed",
               {{"error", freed.message()}});
    }
  }
  // Nothing writes to a buffer any more once this is idle. Its error was
  // reported before, or is the abort's.
  static_cast<void>(stream_->Synchronize());
  {
    MutexLock lock(mutex_);
    has_ended_ = true;
  }
  changed_.NotifyAll();
}

void NcclEngine::NoteFreeing() {
  {
    MutexLock lock(mutex_);
    failed_at_ = Clock::Real().Now();
    is_freeing_ = true;
  }
  changed_.NotifyAll();
}

void NcclEngine::AwaitCompute() {
  std::vector<Item> issued;
  {
    MutexLock lock(mutex_);
    issued.assign(items_.begin(),
                  items_.begin() + static_cast<ptrdiff_t>(issued_count_));
  }
  const MonotonicTime limit = Clock::Real().Now() + kComputeTimeout;
  for (const Item& item : issued) {
    while (Clock::Real().Now() < limit) {
      const absl::StatusOr<bool> is_done = item.ready->IsDone();
      if (!is_done.ok() || *is_done) break;
      AwaitChange(kPollInterval);
    }
  }
}

}  // namespace ringmaster
