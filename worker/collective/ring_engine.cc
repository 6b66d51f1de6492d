#include "worker/collective/ring_engine.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/wait_io.h"
#include "worker/collective/add_into.h"

namespace ringmaster {
namespace {

// Large enough that a frame's costs vanish, small enough to stay in the cache
// between the socket and the sum.
constexpr int64_t kSegmentBytes = 256 << 10;
// Up to here two ranks exchange whole buffers: one latency in place of two
// outweighs the doubled additions.
constexpr int64_t kMaxExchangeBytes = 64 << 10;
// Up to here a payload is read together with its header and copied, instead of
// read on its own.
constexpr int64_t kMaxStagedBytes = 16 << 10;
// How often a thread looks at its sockets before it sleeps: tens of microseconds
// at most. Looking in vain halves the number, for the peer may be waiting for
// this very core; success doubles it; now and then the most is tried again.
constexpr int kMaxSpinRounds = 64;
constexpr int kMinSpinRounds = 2;
constexpr int kSleepsPerRetry = 64;

RingGeometry NoGeometry() {
  RingGeometry geometry;
  geometry.world_size = 1;
  return geometry;
}

}  // namespace

RingEngine::RingEngine(const RingMember& member, std::unique_ptr<Link> next,
                       std::unique_ptr<Link> prev, const CancelToken& cancel,
                       Clock& clock)
    : member_(member),
      next_(std::move(next)),
      prev_(std::move(prev)),
      cancel_(cancel),
      clock_(clock),
      scratch_(kSegmentBytes),
      send_(SegmentCursor::Sends(NoGeometry())),
      receive_(SegmentCursor::Receives(NoGeometry())),
      reader_(member.rank),
      spin_rounds_(kMaxSpinRounds) {}

int RingEngine::prev_rank() const {
  return (member_.rank + member_.world_size - 1) % member_.world_size;
}

int RingEngine::next_rank() const {
  return (member_.rank + 1) % member_.world_size;
}

WireCounters RingEngine::counters() const {
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

void RingEngine::Close() {
  next_->Close();
  prev_->Close();
}

absl::Status RingEngine::Run(const CollectiveRequest& request, int64_t sequence,
                             MonotonicTime deadline) {
  RETURN_IF_ERROR(FAIL_POINT("collective.begin"));
  Begin(request, sequence);
  while (!IsComplete()) {
    if (cancel_.is_cancelled()) [[unlikely]]
      return cancel_.status();
    ASSIGN_OR_RETURN(const bool sent, TrySend());
    ASSIGN_OR_RETURN(const bool received, TryReceive());
    if (sent || received) {
      if (fruitless_rounds_ > 0 && fruitless_rounds_ <= spin_rounds_) {
        OnSpinEnd(/*was_fruitful=*/true);
      }
      fruitless_rounds_ = 0;
    } else {
      RETURN_IF_ERROR(AwaitIo(deadline));
    }
  }
  if (geometry_.is_exchange) {
    AddIntoCommutative(request_.buffer.dtype, request_.buffer.ptr,
                       scratch_.data(), request_.buffer.count);
  }
  SetWaitingFor(-1);
  return absl::OkStatus();
}

void RingEngine::Begin(const CollectiveRequest& request, int64_t sequence) {
  request_ = request;
  const BufferView& buffer = request.buffer;
  elem_bytes_ = SizeOf(buffer.dtype);
  geometry_.op = request.op;
  geometry_.rank = member_.rank;
  geometry_.world_size = member_.world_size;
  geometry_.count = buffer.count;
  geometry_.root = request.root;
  geometry_.segment_elems = kSegmentBytes / elem_bytes_;
  geometry_.is_exchange = request.op == CollectiveOp::kAllReduce &&
                          member_.world_size == 2 &&
                          buffer.count * elem_bytes_ <= kMaxExchangeBytes;
  send_ = SegmentCursor::Sends(geometry_);
  receive_ = SegmentCursor::Receives(geometry_);
  send_lead_ = SendLead(geometry_);
  sends_begun_ = 0;
  received_ = 0;
  is_sending_ = false;
  is_receiving_ = false;
  fruitless_rounds_ = 0;
  header_ = FrameHeader();
  header_.job = member_.job;
  header_.generation = static_cast<uint64_t>(member_.generation);
  header_.sequence = static_cast<uint64_t>(sequence);
  header_.count = static_cast<uint64_t>(buffer.count);
  header_.root = static_cast<uint16_t>(request.root);
  header_.op = static_cast<uint8_t>(request.op);
  header_.dtype = static_cast<uint8_t>(buffer.dtype);
}

FrameHeader RingEngine::HeaderOf(const Segment& segment,
                                 int source_rank) const {
  FrameHeader header = header_;
  header.source_rank = static_cast<uint32_t>(source_rank);
  header.step = static_cast<uint16_t>(segment.step);
  header.offset = static_cast<uint64_t>(segment.begin * elem_bytes_);
  header.payload_bytes = static_cast<uint32_t>(segment.count * elem_bytes_);
  return header;
}

std::byte* RingEngine::At(const Segment& segment) const {
  return static_cast<std::byte*>(request_.buffer.ptr) +
         segment.begin * elem_bytes_;
}

absl::StatusOr<bool> RingEngine::TrySend() {
  if (!is_sending_) {
    if (send_.done() || sends_begun_ >= send_lead_ + received_) return false;
    RETURN_IF_ERROR(FAIL_POINT("collective.send"));
    const Segment segment = send_.current();
    writer_.Begin(HeaderOf(segment, member_.rank), At(segment));
    is_sending_ = true;
    ++sends_begun_;
  }
  const absl::StatusOr<size_t> written = writer_.Advance(*next_);
  if (!written.ok()) return Blame(next_rank(), written.status());
  if (writer_.idle()) {
    payload_sent_bytes_.fetch_add(send_.current().count * elem_bytes_,
                                  std::memory_order_relaxed);
    framing_sent_bytes_.fetch_add(kFrameHeaderBytes, std::memory_order_relaxed);
    is_sending_ = false;
    send_.Advance();
  }
  return *written > 0;
}

absl::StatusOr<bool> RingEngine::TryReceive() {
  if (receive_.done()) return false;
  const Segment segment = receive_.current();
  if (!is_receiving_) {
    RETURN_IF_ERROR(PassReceivePoints(segment));
    const int64_t bytes = segment.count * elem_bytes_;
    is_staged_ = segment.is_reduced || bytes <= kMaxStagedBytes;
    reader_.Begin(HeaderOf(segment, prev_rank()),
                  is_staged_ ? scratch_.data() : At(segment), is_staged_);
    is_receiving_ = true;
  }
  const absl::StatusOr<size_t> got = reader_.Advance(*prev_);
  if (!got.ok()) {
    if (!absl::IsUnavailable(got.status()))
      refused_frames_.fetch_add(1, std::memory_order_relaxed);
    return Blame(prev_rank(), got.status());
  }
  if (!reader_.done()) return *got > 0;
  OnReceived(segment);
  is_receiving_ = false;
  receive_.Advance();
  ++received_;
  return true;
}

absl::Status RingEngine::PassReceivePoints(const Segment& segment) const {
  RETURN_IF_ERROR(FAIL_POINT("collective.receive"));
  if (segment.is_reduced) return FAIL_POINT("collective.reduce_scatter");
  if (request_.op == CollectiveOp::kAllReduce ||
      request_.op == CollectiveOp::kAllGather) {
    return FAIL_POINT("collective.all_gather");
  }
  return absl::OkStatus();
}

void RingEngine::OnReceived(const Segment& segment) {
  payload_received_bytes_.fetch_add(segment.count * elem_bytes_,
                                    std::memory_order_relaxed);
  // An exchange is added when it is over: our own buffer may not have been sent
  // completely yet.
  if (geometry_.is_exchange || !is_staged_ || segment.count == 0) return;
  if (segment.is_reduced) {
    AddInto(request_.buffer.dtype, At(segment), scratch_.data(), segment.count);
  } else {
    std::memcpy(At(segment), scratch_.data(), segment.count * elem_bytes_);
  }
}

absl::Status RingEngine::AwaitIo(MonotonicTime deadline) {
  SetWaitingFor(receive_.done() ? next_rank() : prev_rank());
  const MonotonicTime now = clock_.Now();
  if (now >= deadline) [[unlikely]] {
    return absl::DeadlineExceededError(
        BlameForWait(request_.op, static_cast<int64_t>(header_.sequence)));
  }
  if (fruitless_rounds_++ < spin_rounds_) return absl::OkStatus();
  OnSpinEnd(/*was_fruitful=*/false);
  fruitless_rounds_ = kMaxSpinRounds + 1;  // no more until something moves
  RETURN_IF_ERROR(CheckPeers(now));
  return Poll(now, deadline);
}

absl::Status RingEngine::CheckPeers(MonotonicTime now) {
  const absl::Status next = next_->CheckPeer(now);
  if (!next.ok()) return Blame(next_rank(), next);
  const absl::Status prev = prev_->CheckPeer(now);
  if (!prev.ok()) return Blame(prev_rank(), prev);
  return absl::OkStatus();
}

absl::Status RingEngine::FateOfNext() {
  // The next rank sends nothing on this link, so a read tells how it ended.
  std::byte nothing;
  const iovec part = {&nothing, 1};
  const absl::StatusOr<size_t> got = next_->TryRead(std::span(&part, 1));
  if (!got.ok()) return got.status();
  return absl::UnavailableError(
      absl::StrCat(next_->peer(), " closed its connection"));
}

absl::Status RingEngine::Poll(MonotonicTime now, MonotonicTime deadline) {
  std::array<pollfd, 3> polled;
  size_t used = 0;
  polled[used++] = {cancel_.fd(), POLLIN, 0};
  if (!receive_.done()) polled[used++] = {prev_->fd(), POLLIN, 0};
  const bool needs_next = !send_.done();
  if (needs_next) {
    // Also while there is nothing to send yet: a next rank that is gone will
    // never take it.
    const short events = is_sending_ ? POLLOUT | POLLRDHUP : POLLRDHUP;
    polled[used++] = {next_->fd(), events, 0};
  }
  RETURN_IF_ERROR(WaitIo(std::span(polled.data(), used), deadline - now));
  const short gone = POLLERR | POLLHUP | POLLRDHUP;
  if (needs_next && (polled[used - 1].revents & gone) != 0 &&
      !cancel_.is_cancelled()) {
    return Blame(next_rank(), FateOfNext());
  }
  return absl::OkStatus();
}

void RingEngine::OnSpinEnd(bool was_fruitful) {
  if (was_fruitful) {
    spin_rounds_ = std::min(spin_rounds_ * 2, kMaxSpinRounds);
  } else if (++sleeps_ % kSleepsPerRetry == 0) {
    spin_rounds_ = kMaxSpinRounds;
  } else {
    spin_rounds_ = std::max(spin_rounds_ / 2, kMinSpinRounds);
  }
}

void RingEngine::SetWaitingFor(int rank) {
  if (waiting_for_rank() != rank)
    waiting_for_rank_.store(rank, std::memory_order_relaxed);
}

std::string RingEngine::BlameForWait(CollectiveOp op, int64_t sequence) {
  // Between two looks at the sockets nobody is waited for; then it was, and
  // will be, the previous rank.
  const int waited_for =
      waiting_for_rank() >= 0 ? waiting_for_rank() : prev_rank();
  blamed_rank_.store(waited_for, std::memory_order_relaxed);
  const Link& link = waited_for == prev_rank() ? *prev_ : *next_;
  return absl::StrCat("rank ", member_.rank, " waited for ", link.peer(), " (",
                      CollectiveOpName(op), ", sequence ", sequence,
                      " of generation ", member_.generation, ")");
}

absl::Status RingEngine::Blame(int rank, const absl::Status& status) {
  blamed_rank_.store(rank, std::memory_order_relaxed);
  return Annotate(status, absl::StrCat("rank ", member_.rank, " in ",
                                       CollectiveOpName(request_.op),
                                       ", sequence ", header_.sequence,
                                       " of generation ", member_.generation));
}

}  // namespace ringmaster
