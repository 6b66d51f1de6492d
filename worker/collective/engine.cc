#include "worker/collective/engine.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/collective/contribution.h"

namespace ringmaster {

CollectiveEngine::CollectiveEngine(EngineMember member,
                                   const CancelToken& cancel, Clock& clock)
    : member_(std::move(member)),
      cancel_(cancel),
      clock_(clock),
      plans_(member_.rank, member_.topology, member_.policy),
      wait_(cancel),
      waited_ns_(member_.channels.size()),
      last_non_finite_(member_.channels.size()) {}

WireCounters CollectiveEngine::counters() const {
  WireCounters counters;
  counters.payload_sent_bytes =
      payload_sent_bytes_.load(std::memory_order_relaxed);
  counters.payload_received_bytes =
      payload_received_bytes_.load(std::memory_order_relaxed);
  counters.framing_sent_bytes =
      framing_sent_bytes_.load(std::memory_order_relaxed);
  counters.refused_frames = refused_frames_.load(std::memory_order_relaxed);
  return counters;
}

absl::Duration CollectiveEngine::WaitedFor(int rank) const {
  return absl::Nanoseconds(
      waited_ns_[static_cast<size_t>(rank)].load(std::memory_order_relaxed));
}

int64_t CollectiveEngine::LastNonFinite(int rank) const {
  return last_non_finite_[static_cast<size_t>(rank)].load(
      std::memory_order_relaxed);
}

Transport CollectiveEngine::TransportTo(int rank) const {
  const auto& channel = member_.channels[static_cast<size_t>(rank)];
  return channel == nullptr ? Transport::kLoopback : channel->transport();
}

void CollectiveEngine::Close() {
  for (const auto& channel : member_.channels) {
    if (channel != nullptr) channel->Close();
  }
}

absl::Status CollectiveEngine::Run(const CollectiveRequest& request,
                                   int64_t sequence, MonotonicTime deadline) {
  RETURN_IF_ERROR(FAIL_POINT("collective.begin"));
  RETURN_IF_ERROR(Begin(request, sequence));
  while (true) {
    if (cancel_.is_cancelled()) [[unlikely]]
      return cancel_.status();
    bool has_moved = false;
    bool is_complete = true;
    for (const auto& queue : plan_->queues) {
      if (queue->is_done()) continue;
      is_complete = false;
      if (!IsReady(*queue)) continue;
      ASSIGN_OR_RETURN(const bool queue_moved, Advance(*queue));
      has_moved |= queue_moved;
    }
    if (is_complete && AreSendsTaken()) break;
    if (has_moved) {
      if (wait_.is_waiting()) EndWait();
    } else {
      RETURN_IF_ERROR(Await(deadline));
    }
  }
  if (wait_.is_waiting()) EndWait();
  return absl::OkStatus();
}

absl::Status CollectiveEngine::Begin(const CollectiveRequest& request,
                                     int64_t sequence) {
  request_ = request;
  plan_ = nullptr;
  wait_.Drop();
  longest_ = PeerWait();
  SetWaitingFor(-1);
  last_awaited_.store(-1, std::memory_order_relaxed);
  ASSIGN_OR_RETURN(plan_, plans_.Find(request));
  if (scratch_.size() < static_cast<size_t>(plan_->scratch_bytes))
    scratch_.resize(static_cast<size_t>(plan_->scratch_bytes));
  header_ = FrameHeader();
  header_.job = member_.job;
  header_.generation = static_cast<uint64_t>(member_.generation);
  header_.sequence = static_cast<uint64_t>(sequence);
  header_.count = static_cast<uint64_t>(request.buffer.count);
  header_.root = static_cast<uint16_t>(request.root);
  header_.op = static_cast<uint8_t>(request.op);
  header_.dtype = static_cast<uint8_t>(request.buffer.dtype);
  header_.wire = static_cast<uint8_t>(WireOf(request));
  header_.reduction = static_cast<uint8_t>(request.reduction);
  header_.algorithm = static_cast<uint8_t>(plan_->algorithm);
  return absl::OkStatus();
}

bool CollectiveEngine::IsReady(const OperationQueue& queue) const {
  const OperationQueue::Item& item = queue.items[queue.done];
  return item.after == nullptr ||
         item.after->done >= static_cast<size_t>(item.operation.after_count);
}

absl::StatusOr<bool> CollectiveEngine::Advance(OperationQueue& queue) {
  switch (queue.kind) {
    case OperationQueue::Kind::kSend:
      return Send(queue);
    case OperationQueue::Kind::kReceive:
      return Receive(queue);
    case OperationQueue::Kind::kLocal:
      break;
  }
  DoLocally(queue.items[queue.done]);
  ++queue.done;
  return true;
}

absl::StatusOr<bool> CollectiveEngine::Send(OperationQueue& queue) {
  const Operation& operation = queue.current();
  if (!queue.has_begun) {
    RETURN_IF_ERROR(FAIL_POINT("collective.send"));
    queue.has_begun = true;
  }
  OutgoingFrame frame;
  frame.header = HeaderOf(operation, member_.rank);
  frame.elements = At(operation.area, operation.begin);
  frame.count = operation.count;
  frame.encode = plan_->kernels.encode;
  const absl::StatusOr<Channel::Progress> progress =
      ChannelTo(queue.peer).TrySend(frame);
  if (!progress.ok()) return Blame(queue.peer, progress.status());
  if (*progress != Channel::Progress::kDone)
    return *progress == Channel::Progress::kMoved;
  payload_sent_bytes_.fetch_add(frame.header.payload_bytes,
                                std::memory_order_relaxed);
  const FrameIntegrity integrity = ChannelTo(queue.peer).integrity();
  framing_sent_bytes_.fetch_add(
      static_cast<int64_t>(
          FrameHeadBytes(integrity) +
          FrameTailBytes(integrity, frame.header.payload_bytes)),
      std::memory_order_relaxed);
  queue.has_begun = false;
  ++queue.done;
  return true;
}

absl::StatusOr<bool> CollectiveEngine::Receive(OperationQueue& queue) {
  const Operation& operation = queue.current();
  if (!queue.has_begun) {
    RETURN_IF_ERROR(PassReceivePoints(operation));
    queue.has_begun = true;
  }
  IncomingFrame frame;
  frame.expected = HeaderOf(operation, queue.peer);
  frame.elements = At(operation.area, operation.begin);
  frame.count = operation.count;
  frame.decode =
      operation.is_reduced ? plan_->kernels.reduce : plan_->kernels.keep;
  NonFinite seen;
  frame.non_finite = &seen;
  const absl::StatusOr<Channel::Progress> progress =
      ChannelTo(queue.peer).TryReceive(frame);
  NoteNonFinite(queue.items[queue.done], seen);
  if (!progress.ok()) {
    if (!absl::IsUnavailable(progress.status()))
      refused_frames_.fetch_add(1, std::memory_order_relaxed);
    return Blame(queue.peer, progress.status());
  }
  if (*progress != Channel::Progress::kDone)
    return *progress == Channel::Progress::kMoved;
  payload_received_bytes_.fetch_add(frame.expected.payload_bytes,
                                    std::memory_order_relaxed);
  queue.has_begun = false;
  ++queue.done;
  return true;
}

void CollectiveEngine::DoLocally(const OperationQueue::Item& item) {
  const Operation& operation = item.operation;
  std::byte* const into = At(operation.area, operation.begin);
  if (operation.count == 0) return;
  const ReductionKernels& kernels = plan_->kernels;
  if (operation.kind == Operation::Kind::kFinish) {
    kernels.finish(into, operation.count, member_.topology.world_size());
    return;
  }
  const std::byte* const from = At(operation.from_area, operation.from_begin);
  if (operation.is_reduced) {
    NoteNonFinite(item, kernels.combine(into, from, operation.count));
  } else if (operation.is_as_wire && kernels.encode != nullptr) {
    wire_.resize(static_cast<size_t>(operation.count * kernels.wire_bytes));
    kernels.encode(wire_.data(), from, operation.count);
    kernels.keep(into, wire_.data(), operation.count);
  } else if (into != from) {
    std::memcpy(into, from,
                static_cast<size_t>(operation.count * kernels.element_bytes));
  }
}

void CollectiveEngine::NoteNonFinite(const OperationQueue::Item& item,
                                     const NonFinite& seen) {
  if (seen == NonFinite()) [[likely]]
    return;
  const auto note = [this](int rank) {
    if (rank < 0) return;
    last_non_finite_[static_cast<size_t>(rank)].store(
        static_cast<int64_t>(header_.sequence), std::memory_order_relaxed);
  };
  if (seen.in_elements) note(OwnerOfElements(item, member_.rank));
  if (seen.in_wire) {
    note(OwnerOfOther(item, member_.rank, plan_->algorithm, member_.topology));
  }
}

FrameHeader CollectiveEngine::HeaderOf(const Operation& operation,
                                       int source_rank) const {
  const ReductionKernels& kernels = plan_->kernels;
  FrameHeader header = header_;
  header.source_rank = static_cast<uint32_t>(source_rank);
  header.step = static_cast<uint16_t>(operation.step);
  header.offset = static_cast<uint64_t>(operation.begin * kernels.wire_bytes);
  header.payload_bytes =
      static_cast<uint32_t>(operation.count * kernels.wire_bytes);
  return header;
}

std::byte* CollectiveEngine::At(Area area, int64_t element) {
  std::byte* const base = area == Area::kBuffer
                              ? static_cast<std::byte*>(request_.buffer.ptr)
                              : scratch_.data();
  return base == nullptr ? nullptr
                         : base + element * plan_->kernels.element_bytes;
}

absl::Status CollectiveEngine::PassReceivePoints(
    const Operation& operation) const {
  RETURN_IF_ERROR(FAIL_POINT("collective.receive"));
  if (operation.is_reduced) return FAIL_POINT("collective.reduce_scatter");
  if (request_.op == CollectiveOp::kAllReduce ||
      request_.op == CollectiveOp::kAllGather || request_.mirrors > 0) {
    return FAIL_POINT("collective.all_gather");
  }
  return absl::OkStatus();
}

bool CollectiveEngine::AreSendsTaken() const {
  return std::all_of(plan_->pairs.begin(), plan_->pairs.end(),
                     [this](const CollectivePlan::Pair& pair) {
                       return pair.send == nullptr ||
                              ChannelTo(pair.peer).sends_taken();
                     });
}

absl::Status CollectiveEngine::Await(MonotonicTime deadline) {
  const MonotonicTime now = clock_.Now();
  SetWaitingFor(NextAwaited());
  if (now >= deadline) [[unlikely]] {
    return absl::DeadlineExceededError(
        BlameForWait(request_.op, static_cast<int64_t>(header_.sequence)));
  }
  if (wait_.MayLook(now)) return absl::OkStatus();
  awaited_.clear();
  for (const CollectivePlan::Pair& pair : plan_->pairs) {
    // Also checks peers that are not awaited yet, since a peer that is gone
    // never comes back.
    if (IsDone(pair)) continue;
    awaited_.push_back({&ChannelTo(pair.peer), pair.peer, AwaitsSend(pair),
                        AwaitsReceive(pair)});
  }
  ChannelWait::Result slept = wait_.Sleep(awaited_, now, deadline);
  if (slept.rank >= 0) return Blame(slept.rank, slept.status);
  return std::move(slept.status);
}

void CollectiveEngine::EndWait() {
  const absl::Duration waited = wait_.End(clock_.Now());
  const int waited_for = waiting_for_rank();
  if (waited_for >= 0) {
    waited_ns_[static_cast<size_t>(waited_for)].fetch_add(
        absl::ToInt64Nanoseconds(waited), std::memory_order_relaxed);
    if (waited > longest_.waited) longest_ = {waited_for, waited};
  }
  SetWaitingFor(-1);
}

CollectiveEngine::PeerWait CollectiveEngine::WaitInVain() {
  // A peer whose connection has failed, or else the one that it waits for.
  PeerWait wait;
  wait.rank = blamed_rank();
  if (wait.rank < 0) wait.rank = last_awaited_.load(std::memory_order_relaxed);
  if (wait_.is_waiting()) wait.waited = wait_.End(clock_.Now());
  if (plan_ == nullptr) return wait;
  for (const CollectivePlan::Pair& pair : plan_->pairs) {
    if (pair.peer == wait.rank && pair.receive != nullptr)
      wait.has_peer_entered = pair.receive->done > 0;
  }
  return wait;
}

bool CollectiveEngine::AwaitsSend(const CollectivePlan::Pair& pair) const {
  if (pair.send == nullptr) return false;
  return pair.send->is_done() ? !ChannelTo(pair.peer).sends_taken()
                              : IsReady(*pair.send);
}

bool CollectiveEngine::AwaitsReceive(const CollectivePlan::Pair& pair) const {
  return pair.receive != nullptr && !pair.receive->is_done() &&
         IsReady(*pair.receive);
}

bool CollectiveEngine::IsDone(const CollectivePlan::Pair& pair) const {
  return (pair.send == nullptr ||
          (pair.send->is_done() && ChannelTo(pair.peer).sends_taken())) &&
         (pair.receive == nullptr || pair.receive->is_done());
}

int CollectiveEngine::NextAwaited() const {
  // Receives go first: others wait for them, too, while sends only wait for
  // room. Among receives the first in the schedule counts: the sender of a
  // later one may be waiting for the same rank as we are.
  int source = -1;
  int taker = -1;
  size_t first = std::numeric_limits<size_t>::max();
  for (const CollectivePlan::Pair& pair : plan_->pairs) {
    if (AwaitsReceive(pair) && pair.receive->place() < first) {
      first = pair.receive->place();
      source = pair.peer;
    }
    if (taker < 0 && AwaitsSend(pair)) taker = pair.peer;
  }
  return source >= 0 ? source : taker;
}

void CollectiveEngine::SetWaitingFor(int rank) {
  if (waiting_for_rank() == rank) return;
  waiting_for_rank_.store(rank, std::memory_order_relaxed);
  if (rank >= 0) last_awaited_.store(rank, std::memory_order_relaxed);
}

std::string CollectiveEngine::BlameForWait(CollectiveOp op, int64_t sequence) {
  int waited_for = waiting_for_rank();
  if (waited_for < 0) {
    // Between two polls of the channels no peer is marked as awaited; the last
    // one was, and will be again.
    waited_for = last_awaited_.load(std::memory_order_relaxed);
  }
  std::string text =
      absl::StrCat("rank ", member_.rank, " waited for ",
                   waited_for < 0 ? "its peers" : ChannelTo(waited_for).peer(),
                   " (", CollectiveOpName(op), ", sequence ", sequence,
                   " of generation ", member_.generation, ")");
  NoteBlame(waited_for);
  return text;
}

void CollectiveEngine::NoteBlame(int rank) {
  // Failures after the first follow from it.
  int nobody = -1;
  blamed_rank_.compare_exchange_strong(nobody, rank, std::memory_order_relaxed);
}

absl::Status CollectiveEngine::Blame(int rank, const absl::Status& status) {
  // Channels that were closed on our side are no peer's fault.
  if (cancel_.is_cancelled()) return cancel_.status();
  NoteBlame(rank);
  return Annotate(status, absl::StrCat("rank ", member_.rank, " in ",
                                       CollectiveOpName(request_.op),
                                       ", sequence ", header_.sequence,
                                       " of generation ", member_.generation));
}

}  // namespace ringmaster
