#include "common/transport/shared_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/little_endian.h"
#include "common/transport/wire_totals.h"

namespace ringmaster {
namespace {
constexpr short kGone = POLLERR | POLLHUP | POLLRDHUP;

const SharedControl& ControlOf(const PeerSegment& segment) {
  return *std::launder(reinterpret_cast<const SharedControl*>(segment.at()));
}
}  // namespace

SharedChannel::SharedChannel(int self_rank, std::unique_ptr<Link> socket,
                             Side own, PeerSide peer, Transport transport)
    : self_rank_(self_rank),
      transport_(transport),
      socket_(std::move(socket)),
      own_(std::move(own)),
      peer_(std::move(peer)),
      // Its zeroes are the fields' first values: the peer may look already.
      own_control_(
          *std::launder(reinterpret_cast<SharedControl*>(own_.segment.at()))),
      peer_control_(ControlOf(peer_.segment)) {}

absl::StatusOr<Channel::Progress> SharedChannel::TrySend(
    const OutgoingFrame& frame) {
  if (IsGone()) [[unlikely]]
    return Gone();
  const bool is_in_place = IsInPlace(frame);
  if (!is_in_place && frame.header.payload_bytes > own_.slots.payload_bytes)
      [[unlikely]] {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", self_rank_, " sends a frame of ", frame.header.payload_bytes,
        " bytes to ", peer(), "; a slot of shared memory holds ",
        own_.slots.payload_bytes));
  }
  ASSIGN_OR_RETURN(const bool is_free, HasFreeSlot());
  is_send_blocked_ = !is_free;
  if (!is_free) return Progress::kBlocked;
  PutFrame(frame, is_in_place);
  // Sequentially consistent, as the look at the peer's sleep after it.
  own_control_.published.store(++published_, std::memory_order_seq_cst);
  if (is_in_place) in_place_end_ = published_;
  Ring(kWakeOnPublished);
  if (transport_ != Transport::kLoopback) CountSent(frame.header.payload_bytes);
  return Progress::kDone;
}

bool SharedChannel::IsInPlace(const OutgoingFrame& frame) const {
  return own_.arena != nullptr && frame.encode == nullptr &&
         frame.header.payload_bytes >= kMinInPlaceBytes &&
         own_.arena->Contains(frame.elements, frame.header.payload_bytes);
}

void SharedChannel::PutFrame(const OutgoingFrame& frame, bool is_in_place) {
  std::byte* const slot =
      own_.segment.at() + SlotOffset(own_.slots, published_ % own_.slots.count);
  std::byte* const payload = slot + kFrameHeaderBytes;
  FrameHeaderBytes header = EncodeFrameHeader(frame.header);
  header[kPlaceByte] = is_in_place ? kInArena : kInSlot;
  std::memcpy(slot, header.data(), header.size());
  if (is_in_place) {
    StoreLittleEndian(static_cast<uint64_t>(frame.elements - own_.arena->at()),
                      payload);
  } else if (frame.encode != nullptr) {
    frame.encode(payload, frame.elements, frame.count);
  } else if (frame.header.payload_bytes > 0) {
    std::memcpy(payload, frame.elements, frame.header.payload_bytes);
  }
}

absl::Status SharedChannel::CheckTaken(uint64_t taken) const {
  if (IsPossible(taken)) [[likely]]
    return absl::OkStatus();
  return Nonsense("taken", taken, peer_taken_, published_);
}

absl::StatusOr<bool> SharedChannel::HasFreeSlot() {
  if (published_ - peer_taken_ < own_.slots.count) return true;
  const uint64_t taken = peer_control_.taken.load(std::memory_order_acquire);
  RETURN_IF_ERROR(CheckTaken(taken));
  peer_taken_ = taken;
  return published_ - peer_taken_ < own_.slots.count;
}

absl::StatusOr<Channel::Progress> SharedChannel::TryReceive(
    const IncomingFrame& frame) {
  if (is_closed_.load(std::memory_order_acquire)) [[unlikely]]
    return Gone();
  ASSIGN_OR_RETURN(bool has_frame, HasFrame());
  if (!has_frame) {
    if (!IsGone()) [[likely]]
      return Progress::kBlocked;
    // It may have published its last frame just before it went.
    ASSIGN_OR_RETURN(has_frame, HasFrame());
    if (!has_frame) return Gone();
  }
  const std::byte* const slot =
      peer_.segment.at() + SlotOffset(peer_.slots, taken_ % peer_.slots.count);
  ASSIGN_OR_RETURN(const std::byte* const payload,
                   FindPayload(frame.expected, slot));
  if (frame.decode != nullptr) {
    Decode(frame, payload);
  } else if (frame.expected.payload_bytes > 0) {
    std::memcpy(frame.elements, payload, frame.expected.payload_bytes);
  }
  if (payload != slot + kFrameHeaderBytes) {
    // The look comes after all reads: a peer closes before it changes its
    // arena, so if it is not closed now, what was read was the frame.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (peer_control_.is_closed.load(std::memory_order_relaxed) != 0)
      return Gone();
  }
  own_control_.taken.store(++taken_, std::memory_order_seq_cst);
  Ring(kWakeOnTaken);
  if (transport_ != Transport::kLoopback)
    CountReceived(frame.expected.payload_bytes);
  return Progress::kDone;
}

absl::StatusOr<bool> SharedChannel::HasFrame() {
  if (peer_published_ != taken_) return true;
  const uint64_t published =
      peer_control_.published.load(std::memory_order_acquire);
  if (published - taken_ > peer_.slots.count) [[unlikely]] {
    return Nonsense("published", published, taken_, taken_ + peer_.slots.count);
  }
  peer_published_ = published;
  return peer_published_ != taken_;
}

absl::StatusOr<const std::byte*> SharedChannel::FindPayload(
    const FrameHeader& expected, const std::byte* slot) const {
  FrameHeaderBytes got;
  std::memcpy(got.data(), slot, got.size());
  // Only the copy is checked; the compiler must not read the slot again.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::byte place = std::exchange(got[kPlaceByte], std::byte{0});
  if (got != EncodeFrameHeader(expected)) [[unlikely]] {
    const absl::StatusOr<FrameHeader> header = ParseFrameHeader(got);
    if (header.ok()) return MatchFrame(expected, *header, self_rank_);
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", self_rank_, " refused what ", peer(),
                     " published: ", header.status().message()));
  }
  const std::byte* const in_slot = slot + kFrameHeaderBytes;
  if (place == kInSlot && expected.payload_bytes <= peer_.slots.payload_bytes)
    return in_slot;
  const size_t arena_bytes = peer_.arena ? peer_.arena->bytes() : 0;
  const auto offset = LoadLittleEndian<uint64_t>(in_slot);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (place == kInArena && offset <= arena_bytes &&
      expected.payload_bytes <= arena_bytes - offset)
    return peer_.arena->at() + offset;
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", self_rank_, " refused a frame of ", peer(), ": its ",
      expected.payload_bytes, " bytes are said to be in place ",
      std::to_integer<int>(place), " at ", offset,
      ", outside of what it shares (slots of ", peer_.slots.payload_bytes,
      " bytes, an arena of ", arena_bytes, ")"));
}

bool SharedChannel::sends_taken() const {
  if (in_place_end_ <= peer_taken_) return true;
  // The last look before a sleep, too: in one order with the sleep's store.
  const uint64_t taken = peer_control_.taken.load(std::memory_order_seq_cst);
  return published_ - taken <= published_ - in_place_end_;
}

void SharedChannel::Ring(uint64_t what) {
  const uint64_t sleep = peer_control_.sleep.load(std::memory_order_seq_cst);
  // One byte ends a sleep, whatever follows.
  if ((sleep & what) == 0 || sleep == last_rung_) [[likely]]
    return;
  last_rung_ = sleep;
  // A full socket is a ringing one, and whether the peer is gone is asked where
  // it matters.
  const std::byte bell{1};
  [[maybe_unused]] const ssize_t sent =
      send(socket_->fd(), &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool SharedChannel::IsReady() const {
  if ((wakes_on_ & kWakeOnPublished) != 0 &&
      peer_control_.published.load(std::memory_order_seq_cst) != taken_)
    return true;
  if ((wakes_on_ & kWakeOnTaken) == 0) return false;
  const uint64_t taken = peer_control_.taken.load(std::memory_order_seq_cst);
  // Nonsense is not slept over: EndWait tells.
  if (!IsPossible(taken)) return true;
  return is_send_blocked_ ? published_ - taken != own_.slots.count
                          : sends_taken();
}

bool SharedChannel::BeginWait(bool for_send, bool for_receive,
                              std::vector<pollfd>& polled) {
  polled.push_back({socket_->fd(), POLLIN | POLLRDHUP, 0});
  wakes_on_ =
      (for_receive ? kWakeOnPublished : 0) | (for_send ? kWakeOnTaken : 0);
  if (wakes_on_ != 0) {
    own_control_.sleep.store(++sleeps_ * 4 + wakes_on_,
                             std::memory_order_seq_cst);
  }
  if (IsReady()) return false;
  if (!IsGone()) return true;
  // A socket that has ended would end every poll at once.
  polled.back().fd = -1;
  return !IsWaitLost();
}

absl::Status SharedChannel::EndWait(std::span<const pollfd> polled) {
  const short revents = polled.front().revents;
  if (wakes_on_ != 0) own_control_.sleep.store(0, std::memory_order_release);
  if ((revents & POLLIN) != 0) {
    // A byte for each sleep at most, so this takes all there are.
    std::array<std::byte, 256> bells;
    const ssize_t got =
        recv(socket_->fd(), bells.data(), bells.size(), MSG_DONTWAIT);
    is_peer_gone_ |= got == 0 || (got < 0 && errno == ECONNRESET);
  }
  is_peer_gone_ |= (revents & kGone) != 0;
  if ((wakes_on_ & kWakeOnTaken) != 0) {
    RETURN_IF_ERROR(
        CheckTaken(peer_control_.taken.load(std::memory_order_acquire)));
  }
  return IsGone() && !IsReady() && IsWaitLost() ? Gone() : absl::OkStatus();
}

bool SharedChannel::IsWaitLost() const {
  // Frames published before the end may still be received, now or later.
  return is_closed_.load(std::memory_order_acquire) ||
         (wakes_on_ & kWakeOnTaken) != 0 ||
         peer_control_.published.load(std::memory_order_acquire) == taken_;
}

bool SharedChannel::IsGone() const {
  return is_peer_gone_ || is_closed_.load(std::memory_order_acquire) ||
         peer_control_.is_closed.load(std::memory_order_acquire) != 0;
}

absl::Status SharedChannel::Gone() const {
  return is_closed_.load(std::memory_order_acquire)
             ? absl::UnavailableError(
                   absl::StrCat("the channel to ", peer(), " was closed"))
             : ClosedByPeer(peer());
}

absl::Status SharedChannel::Nonsense(const char* counter, uint64_t got,
                                     uint64_t low, uint64_t high) const {
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", self_rank_, " refused the shared memory of ",
                   peer(), ": it has ", counter, " ", got,
                   " frames, which must be ", low, " to ", high));
}

void SharedChannel::Close() {
  is_closed_.store(true, std::memory_order_release);
  own_control_.is_closed.store(1, std::memory_order_seq_cst);
  // The caller's later writes into the arena come after this store, for a peer
  // that still reads there.
  std::atomic_thread_fence(std::memory_order_release);
  socket_->Close();
}

}  // namespace ringmaster
