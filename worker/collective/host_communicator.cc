#include "worker/collective/host_communicator.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/reduction/reduction_kernels.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake.h"
#include "worker/collective/plan_cache.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

bool IsKnown(CollectiveOp op) {
  return op >= CollectiveOp::kAllReduce && op <= CollectiveOp::kBarrier;
}

std::unique_ptr<CollectiveEngine> NewEngine(
    const HostCommunicator::Options& options,
    std::vector<std::unique_ptr<Channel>> channels, const CancelToken& cancel) {
  if (options.topology.world_size() == 1) return nullptr;
  EngineMember member = {
      JobHash(options.job_id), options.generation, options.rank,
      options.topology,        options.policy,     std::move(channels)};
  return std::make_unique<CollectiveEngine>(std::move(member), cancel,
                                            *options.clock);
}

}  // namespace

HostCommunicator::HostCommunicator(
    const Options& options, std::vector<std::unique_ptr<Channel>> channels)
    : options_(options),
      clock_(*options.clock),
      engine_(NewEngine(options, std::move(channels), failure_)) {
  if (engine_ != nullptr) thread_ = std::thread([this] { ThreadMain(); });
}

HostCommunicator::~HostCommunicator() {
  Abort("the communicator was destroyed");
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  queued_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status HostCommunicator::Validate(
    const CollectiveRequest& request) const {
  const BufferView& buffer = request.buffer;
  if (!IsKnown(request.op)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "collective ", static_cast<int>(request.op), " does not exist"));
  }
  if (buffer.memory != MemoryKind::kHost) {
    return absl::InvalidArgumentError(
        "the host communicator takes buffers in host memory only");
  }
  RETURN_IF_ERROR(KernelsOf(request).status());
  if (buffer.count < 0 || (buffer.count > 0 && buffer.ptr == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", buffer.count, " elements at ",
                     buffer.ptr == nullptr ? "null" : "an address"));
  }
  if (request.op == CollectiveOp::kBarrier && buffer.count != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a barrier carries no elements, not ", buffer.count));
  }
  if (request.algorithm != Algorithm::kAuto && world_size() > 1 &&
      !IsUsable(request.algorithm, options_.topology)) {
    return absl::InvalidArgumentError(
        absl::StrCat(AlgorithmName(request.algorithm),
                     " needs connections that ", world_size(), " ranks on ",
                     options_.topology.host_count(), " hosts do not have"));
  }
  if (request.mirrors < 0 ||
      (request.mirrors > 0 && request.op != CollectiveOp::kReduceScatter)) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.mirrors, " mirrors of the chunks of ",
                     CollectiveOpName(request.op)));
  }
  if (request.root < 0 || request.root >= world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("root ", request.root, " in a world of ", world_size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostCommunicator::Pending> HostCommunicator::Admit(
    const CollectiveRequest& request) {
  RETURN_IF_ERROR(failure_.status());
  if (queue_.size() >= kMaxQueued) {
    return absl::ResourceExhaustedError(absl::StrCat(
        kMaxQueued, " collectives are queued; wait for some of them"));
  }
  return Pending{request, ++started_, clock_.Now()};
}

absl::Status HostCommunicator::FinishAlone(const CollectiveRequest& request) {
  RETURN_IF_ERROR(failure_.status());
  ASSIGN_OR_RETURN(const ReductionKernels kernels, KernelsOf(request));
  if (kernels.finish != nullptr && request.buffer.count > 0) {
    kernels.finish(static_cast<std::byte*>(request.buffer.ptr),
                   request.buffer.count, /*world_size=*/1);
  }
  return absl::OkStatus();
}

absl::StatusOr<Ticket> HostCommunicator::Start(
    const CollectiveRequest& request) {
  RETURN_IF_ERROR(Validate(request));
  if (engine_ == nullptr) RETURN_IF_ERROR(FinishAlone(request));
  Ticket ticket;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(Pending pending, Admit(request));
    ticket.sequence = pending.sequence;
    if (engine_ == nullptr) {
      completed_ = started_;
      return ticket;
    }
    queue_.push_back(std::move(pending));
  }
  queued_.NotifyOne();
  return ticket;
}

absl::Status HostCommunicator::Wait(Ticket ticket, MonotonicTime deadline) {
  Pending running;
  {
    MutexLock lock(mutex_);
    if (ticket.sequence < 1 || ticket.sequence > started_) {
      return absl::InvalidArgumentError(
          absl::StrCat("ticket ", ticket.sequence, " was never given out"));
    }
    bool in_time = true;
    while (completed_ < ticket.sequence && !failure_.is_cancelled() &&
           in_time) {
      in_time = changed_.WaitUntil(mutex_, clock_, deadline);
    }
    if (completed_ >= ticket.sequence) return absl::OkStatus();
    running = running_;
  }
  if (!failure_.is_cancelled()) {
    Fail(absl::DeadlineExceededError(
        engine_->BlameForWait(running.request.op, running.sequence)));
  }
  MutexLock lock(mutex_);
  // The engine looks at failure_ between any two system calls; until it has, it
  // may still write to the buffer.
  while (is_engine_busy_) changed_.Wait(mutex_);
  return completed_ >= ticket.sequence ? absl::OkStatus() : failure_.status();
}

absl::Status HostCommunicator::Run(const CollectiveRequest& request,
                                   MonotonicTime deadline) {
  RETURN_IF_ERROR(Validate(request));
  Pending pending;
  {
    MutexLock lock(mutex_);
    if (engine_ == nullptr || is_engine_busy_ || !queue_.empty()) {
      pending.sequence = 0;
    } else {
      ASSIGN_OR_RETURN(pending, Admit(request));
      is_engine_busy_ = true;
      running_ = pending;
    }
  }
  if (pending.sequence == 0) return Communicator::Run(request, deadline);
  const absl::Status status = Execute(pending, deadline);
  Finish(pending, status);
  return status.ok() ? status : failure_.status();
}

void HostCommunicator::ThreadMain() {
  while (true) {
    Pending pending;
    {
      MutexLock lock(mutex_);
      while (!is_stopping_ &&
             (queue_.empty() || is_engine_busy_ || failure_.is_cancelled())) {
        queued_.Wait(mutex_);
      }
      if (is_stopping_) return;
      running_ = pending = queue_.front();
      queue_.pop_front();
      is_engine_busy_ = true;
    }
    // No deadline of its own: the caller of Wait has one, and fails everything
    // when it passes.
    Finish(pending, Execute(pending, MonotonicTime::InfiniteFuture()));
  }
}

absl::Status HostCommunicator::Execute(const Pending& pending,
                                       MonotonicTime deadline) {
  TraceSpan span = SpanOf(pending);
  span.start = clock_.Now();
  span.state = SpanState::kUnderWay;
  const int64_t place =
      options_.trace == nullptr ? 0 : options_.trace->Open(span);
  const absl::Status status = RunEngine(pending, deadline);
  span.end = clock_.Now();
  if (status.ok() && (pending.request.op == CollectiveOp::kAllReduce ||
                      pending.request.op == CollectiveOp::kReduceScatter)) {
    all_reduce_ns_.fetch_add(absl::ToInt64Nanoseconds(span.end - span.start),
                             std::memory_order_relaxed);
  }
  if (options_.trace == nullptr) return status;
  const CollectiveEngine::PeerWait wait =
      status.ok() ? engine_->LongestWait() : engine_->WaitInVain();
  span.state = status.ok() ? SpanState::kEnded : SpanState::kBrokenOff;
  span.awaited_rank = wait.rank;
  span.waited = wait.waited;
  span.has_awaited_entered = wait.has_peer_entered;
  options_.trace->Replace(place, span);
  return status;
}

TraceSpan HostCommunicator::SpanOf(const Pending& pending) const {
  const CollectiveRequest& request = pending.request;
  TraceSpan span;
  span.name = CollectiveOpName(request.op);
  span.track = "communication";
  span.step = request.trace_step;
  span.bucket = request.trace_label;
  span.bytes = request.buffer.count * SizeOf(request.buffer.dtype);
  span.ready = pending.ready;
  span.sequence = pending.sequence;
  span.generation = options_.generation;
  return span;
}

absl::Status HostCommunicator::RunEngine(const Pending& pending,
                                         MonotonicTime deadline) {
  try {
    return engine_->Run(pending.request, pending.sequence, deadline);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", rank(), " has no memory left for a collective (",
                     CollectiveOpName(pending.request.op), " of ",
                     pending.request.buffer.count, " elements)"));
  }
}

void HostCommunicator::Finish(const Pending& pending,
                              const absl::Status& status) {
  if (!status.ok()) Fail(status);
  {
    MutexLock lock(mutex_);
    is_engine_busy_ = false;
    if (status.ok()) completed_ = pending.sequence;
  }
  changed_.NotifyAll();
  queued_.NotifyAll();
}

// The first failure is that of all later collectives. Peers notice it by the
// closed links, so none waits for us.
void HostCommunicator::Fail(const absl::Status& status) {
  failure_.CancelWith(status);
  if (engine_ != nullptr) engine_->Close();
  {
    MutexLock lock(mutex_);  // a Wait is either before its look at failure_ or
                             // in its sleep
  }
  changed_.NotifyAll();
}

void HostCommunicator::Abort(std::string_view why) {
  Fail(absl::AbortedError(absl::StrCat(
      "rank ", options_.rank, " was aborted at generation ",
      options_.generation, ": ", absl::string_view(why.data(), why.size()))));
}

CollectiveProgress HostCommunicator::progress() const {
  CollectiveProgress progress;
  {
    MutexLock lock(mutex_);
    progress.completed = completed_;
    progress.started = started_;
  }
  if (engine_ != nullptr) {
    progress.waiting_for_rank = engine_->waiting_for_rank();
    progress.blamed_rank = engine_->blamed_rank();
  }
  return progress;
}

absl::Duration HostCommunicator::WaitedFor(int rank) const {
  return engine_ != nullptr ? engine_->WaitedFor(rank) : absl::ZeroDuration();
}

int64_t HostCommunicator::LastNonFinite(int rank) const {
  return engine_ != nullptr ? engine_->LastNonFinite(rank) : 0;
}

Transport HostCommunicator::TransportTo(int rank) const {
  return engine_ != nullptr ? engine_->TransportTo(rank) : Transport::kLoopback;
}

WireCounters HostCommunicator::counters() const {
  return engine_ != nullptr ? engine_->counters() : WireCounters();
}

}  // namespace ringmaster
