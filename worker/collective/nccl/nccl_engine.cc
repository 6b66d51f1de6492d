#include "worker/collective/nccl/nccl_engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// The time that peers have to end in an orderly way.
constexpr absl::Duration kFinalizeTimeout = absl::Seconds(2);
// The time between two looks at kernels that have been told to stop (CUDA has
// no wait with a deadline), which takes them milliseconds.
constexpr absl::Duration kQuietInterval = absl::Microseconds(200);

}  // namespace

void NcclEngine::Abandon(std::unique_ptr<NcclEngine> engine) {
  static Mutex& mutex = *new Mutex();
  static auto& abandoned = *new std::vector<std::unique_ptr<NcclEngine>>();
  engine->thread_.detach();  // it cannot be joined
  MutexLock lock(mutex);
  abandoned.push_back(std::move(engine));
}

absl::StatusOr<std::unique_ptr<NcclEngine>> NcclEngine::Create(
    const Options& options) {
  RETURN_IF_ERROR(options.device->MakeCurrent());
  ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> stream,
                   CudaStream::Create("nccl", CudaStream::Priority::kHigh));
  return std::unique_ptr<NcclEngine>(
      new NcclEngine(options, std::move(stream)));
}

NcclEngine::NcclEngine(const Options& options,
                       std::unique_ptr<CudaStream> stream)
    : options_(options), stream_(std::move(stream)), cancel_(options.cancel) {
  thread_ = std::thread([this] { ThreadMain(); });
}

void NcclEngine::Close(
    std::unique_ptr<NcclEngine> engine,
    const std::function<void(const absl::Status&)>& on_abort_hung) {
  bool is_idle = false;
  {
    MutexLock lock(engine->mutex_);
    is_idle = engine->items_.empty();
    engine->is_closing_ = is_idle;
  }
  if (!is_idle) {
    engine->Fail(absl::AbortedError("the communicator was destroyed"));
  }
  engine->changed_.NotifyAll();
  const MonotonicTime deadline =
      Clock::Real().Now() + engine->options_.abort_timeout +
      (engine->failure_.is_cancelled() ? absl::ZeroDuration()
                                       : kFinalizeTimeout);
  const MonotonicTime begin = Clock::Real().Now();
  const bool is_closed =
      engine->Await([&engine] { return engine->CanClose(); }, deadline);
  LogEvent(LogLevel::kDebug, "nccl.closed",
           {{"generation", engine->options_.generation},
            {"took", absl::FormatDuration(Clock::Real().Now() - begin)}});
  if (is_closed) {
    if (!engine->has_ended()) {
      NcclRetired& retired = *engine->options_.retired;
      return retired.Add(std::move(engine));
    }
    engine->thread_.join();
    return;
  }
  const std::string cause(engine->failure().message());
  const absl::Status hung = absl::UnavailableError(absl::StrCat(
      "rank ", engine->options_.rank, " of generation ",
      engine->options_.generation, ": NCCL has not come back from an abort in ",
      absl::FormatDuration(engine->options_.abort_timeout), " (",
      cause.empty() ? "at the end of the generation" : cause,
      "): this process cannot use its GPU any more and has to end"));
  engine->Fail(hung);
  Abandon(std::move(engine));
  if (on_abort_hung) on_abort_hung(hung);
}

absl::Status NcclEngine::Do(
    const char* what, MonotonicTime deadline,
    std::function<absl::Status(const KeepWaiting&)> work) {
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  job->deadline = deadline;
  job->what = what;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(failure_.status());
    job_ = job;
  }
  changed_.NotifyAll();
  {
    MutexLock lock(mutex_);
    // The thread gives up at the deadline, if NCCL lets it.
    const MonotonicTime last = deadline + kFinalizeTimeout;
    bool in_time = true;
    while (!job->is_done && !failure_.is_cancelled() && in_time) {
      in_time = changed_.WaitUntil(mutex_, *options_.clock, last);
    }
    if (job->is_done && job->status.ok()) return absl::OkStatus();
  }
  Fail(absl::DeadlineExceededError(
      absl::StrCat("rank ", options_.rank, " of generation ",
                   options_.generation, " does not come back from ", what)));
  return failure();
}

absl::Status NcclEngine::Connect(const NcclLibrary& library, const NcclId& id,
                                 int world_size, BufferView arena,
                                 MonotonicTime deadline) {
  return Do("ncclCommInitRank", deadline, [=, this](const KeepWaiting& wait) {
    const MonotonicTime begin = Clock::Real().Now();
    comms_.emplace(library);
    RETURN_IF_ERROR(comms_->Connect(id, options_.rank, world_size, wait));
    LogEvent(LogLevel::kDebug, "nccl.connected",
             {{"generation", options_.generation},
              {"world_size", world_size},
              {"took", absl::FormatDuration(Clock::Real().Now() - begin)}});
    if (arena.count == 0) return absl::OkStatus();
    return comms_->Register(arena.ptr, arena.count * SizeOf(arena.dtype));
  });
}

void NcclEngine::Connected() {
  MutexLock lock(mutex_);
  cancel_ = nullptr;
}

absl::StatusOr<NcclEngine::Membership> NcclEngine::Split(
    int color, int key, MonotonicTime deadline) {
  // Shared: the thread may come back to it after this call has given up.
  const auto made = std::make_shared<Membership>();
  RETURN_IF_ERROR(
      Do("ncclCommSplit", deadline,
         [made, color, key, this](const KeepWaiting& wait) -> absl::Status {
           ASSIGN_OR_RETURN(made->group, comms_->Split(0, color, key, wait));
           if (made->group != NcclComms::kNoGroup) {
             made->of = comms_->Of(made->group);
           }
           return absl::OkStatus();
         }));
  return *made;
}

absl::StatusOr<std::shared_ptr<NcclEngine::Events>> NcclEngine::TakeEvents() {
  {
    MutexLock lock(mutex_);
    if (!spare_events_.empty()) {
      std::shared_ptr<Events> events = std::move(spare_events_.back());
      spare_events_.pop_back();
      return events;
    }
  }
  const auto events = std::make_shared<Events>();
  for (std::unique_ptr<CudaEvent>* event :
       {&events->ready, &events->begin, &events->end}) {
    ASSIGN_OR_RETURN(*event, CudaEvent::Create(CudaEvent::Timing::kOn));
  }
  return events;
}

absl::StatusOr<NcclEngine::Sequence> NcclEngine::Start(
    int group, const CollectiveRequest& request, const NcclTraffic& traffic,
    CudaStream& compute) {
  Item item;
  item.group = group;
  item.request = request;
  item.traffic = traffic;
  ASSIGN_OR_RETURN(item.events, TakeEvents());
  item.ready = &compute.MarkReady(*item.events->ready);
  RETURN_IF_ERROR(compute.status());
  return Admit(std::move(item));
}

absl::StatusOr<NcclEngine::Sequence> NcclEngine::Admit(Item item) {
  Sequence sequence = 0;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(failure_.status());
    if (items_.size() >= kMaxQueued) {
      return absl::ResourceExhaustedError(absl::StrCat(
          kMaxQueued, " collectives are queued; wait for some of them"));
    }
    sequence = ++totals_.started;
    item.sequence = sequence;
    item.started = options_.clock->Now();
    RecordQueued(item);
    items_.push_back(std::move(item));
  }
  changed_.NotifyAll();
  return sequence;
}

absl::Status NcclEngine::Wait(Sequence sequence, MonotonicTime deadline) {
  {
    MutexLock lock(mutex_);
    bool in_time = true;
    while (totals_.completed < sequence && !failure_.is_cancelled() &&
           in_time) {
      in_time = changed_.WaitUntil(mutex_, *options_.clock, deadline);
    }
    if (totals_.completed >= sequence) return absl::OkStatus();
  }
  Fail(TooLate(sequence));
  MutexLock lock(mutex_);  // it may have completed before that
  return totals_.completed >= sequence ? absl::OkStatus() : failure_.status();
}

absl::Status NcclEngine::TooLate(Sequence sequence) const {
  MutexLock lock(mutex_);
  std::string request = "a collective";
  for (const Item& item : items_) {
    if (item.sequence == sequence) request = DescribeRequest(item.request);
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", options_.rank, " of generation ", options_.generation,
      " has waited too long for NCCL's collective ", sequence, ", ", request,
      "; ", totals_.completed,
      " are complete (NCCL does not tell which rank is missing)"));
}

bool NcclEngine::IsIssued(Sequence sequence) const {
  return items_.empty() || sequence < items_.front().sequence +
                                          static_cast<Sequence>(issued_count_);
}

absl::Status NcclEngine::WaitOnStream(Sequence sequence, CudaStream& stream,
                                      MonotonicTime deadline) {
  std::shared_ptr<Events> events;
  bool in_time = true;
  {
    MutexLock lock(mutex_);
    while (!IsIssued(sequence) && !failure_.is_cancelled() && in_time) {
      in_time = changed_.WaitUntil(mutex_, *options_.clock, deadline);
    }
    if (totals_.completed >= sequence) return absl::OkStatus();
    if (in_time) {
      RETURN_IF_ERROR(failure_.status());
      events = items_[static_cast<size_t>(sequence - items_.front().sequence)]
                   .events;
    }
  }
  if (events == nullptr) {
    Fail(TooLate(sequence));
    return failure();
  }
  // Completed meanwhile, the events may not serve another collective yet: this
  // holds on to them.
  stream.WaitFor(*events->end);
  return stream.status();
}

void NcclEngine::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (failure_.is_cancelled()) return;
    failure_.CancelWith(status);
    failed_at_ = Clock::Real().Now();
  }
  changed_.NotifyAll();
  if (options_.on_failure) options_.on_failure(status);
}

bool NcclEngine::abort_hung() const {
  {
    MutexLock lock(mutex_);
    if (!failure_.is_cancelled() || has_ended_ ||
        Clock::Real().Now() - failed_at_ <= options_.abort_timeout) {
      return false;
    }
  }
  return !CanClose();
}

bool NcclEngine::CanClose() const {
  return options_.retired == nullptr ? has_ended() : IsQuiet();
}

bool NcclEngine::IsQuiet() const {
  {
    MutexLock lock(mutex_);
    if (has_ended_) return true;
    if (!is_freeing_ || may_queue_more_) return false;
  }
  // After an error nothing runs, either.
  return cudaStreamQuery(stream_->get()) != cudaErrorNotReady;
}

bool NcclEngine::Await(absl::FunctionRef<bool()> is_so,
                       MonotonicTime deadline) {
  Clock& clock = Clock::Real();
  while (!is_so()) {
    const MonotonicTime now = clock.Now();
    if (now >= deadline) return false;
    MutexLock lock(mutex_);
    if (has_ended_) continue;
    // CUDA does not notify when kernels that were told to stop have ended, so
    // this polls.
    changed_.WaitUntil(
        mutex_, clock,
        is_freeing_ ? std::min(deadline, now + kQuietInterval) : deadline);
  }
  return true;
}

bool NcclEngine::IsLate() const {
  MutexLock lock(mutex_);
  return is_freeing_ &&
         Clock::Real().Now() - failed_at_ > options_.abort_timeout;
}

bool NcclEngine::has_ended() const {
  MutexLock lock(mutex_);
  return has_ended_;
}

void NcclRetired::Add(std::unique_ptr<NcclEngine> engine) {
  MutexLock lock(mutex_);
  engines_.push_back(std::move(engine));
}

std::vector<std::unique_ptr<NcclEngine>> NcclRetired::TakeAll() {
  MutexLock lock(mutex_);
  return std::exchange(engines_, {});
}

absl::Status NcclRetired::Settle(std::unique_ptr<NcclEngine> engine) {
  if (engine->has_ended()) {
    engine->thread_.join();
    return absl::OkStatus();
  }
  absl::Status hung = absl::UnavailableError(absl::StrCat(
      "rank ", engine->options_.rank, " of generation ",
      engine->options_.generation, ": NCCL has not freed its communicators in ",
      absl::FormatDuration(engine->options_.abort_timeout),
      ": this process cannot use its GPU any more and has to end"));
  NcclEngine::Abandon(std::move(engine));
  return hung;
}

absl::Status NcclRetired::Collect() {
  absl::Status status;
  for (std::unique_ptr<NcclEngine>& engine : TakeAll()) {
    if (engine->has_ended() || engine->IsLate()) {
      status.Update(Settle(std::move(engine)));
    } else {
      Add(std::move(engine));
    }
  }
  return status;
}

absl::Status NcclRetired::Drain() {
  absl::Status status;
  for (std::unique_ptr<NcclEngine>& engine : TakeAll()) {
    const MonotonicTime deadline =
        Clock::Real().Now() + engine->options_.abort_timeout;
    static_cast<void>(
        engine->Await([&engine] { return engine->has_ended(); }, deadline));
    status.Update(Settle(std::move(engine)));
  }
  return status;
}

NcclRetired::~NcclRetired() {
  const absl::Status drained = Drain();
  if (!drained.ok())
    LogEvent(LogLevel::kError, "nccl.not_freed",
             {{"error", drained.message()}});
}

NcclEngine::Totals NcclEngine::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

}  // namespace ringmaster
