#include "common/transport/stream_channel.h"

#include <sys/ioctl.h>

#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/wire_totals.h"

namespace ringmaster {
namespace {

// Up to here a payload is read together with its header and copied, instead of
// read on its own: a system call costs more than the copy.
constexpr uint32_t kMaxCopiedBytes = 16 << 10;

// Up to here a frame that another one follows is kept for that.
constexpr uint32_t kMaxHeldBytes = 256;

void GrowTo(std::vector<std::byte>& buffer, size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

}  // namespace

StreamChannel::StreamChannel(int self_rank, std::unique_ptr<Link> link,
                             Transport transport, FrameIntegrity integrity,
                             const FrameKeys* keys)
    : link_(std::move(link)),
      transport_(transport),
      integrity_(integrity),
      writer_(integrity, keys == nullptr ? nullptr : &keys->send),
      reader_(self_rank, integrity,
              keys == nullptr ? nullptr : &keys->receive) {}

absl::StatusOr<Channel::Progress> StreamChannel::TrySend(
    const OutgoingFrame& frame) {
  if (is_closed_.load(std::memory_order_relaxed)) [[unlikely]]
    return ClosedHere();
  if (!is_sending_ && frame.is_followed && frame.encode == nullptr &&
      frame.header.payload_bytes <= kMaxHeldBytes) {
    writer_.Hold(frame.header, frame.elements);
    Count(frame);
    return Progress::kDone;
  }
  if (!is_sending_) RETURN_IF_ERROR(BeginSend(frame));
  ASSIGN_OR_RETURN(const size_t written, writer_.Advance(*link_));
  if (!writer_.idle())
    return written > 0 ? Progress::kMoved : Progress::kBlocked;
  is_sending_ = false;
  Count(frame);
  return Progress::kDone;
}

void StreamChannel::Count(const OutgoingFrame& frame) const {
  // Frames from a process to itself travel nowhere.
  if (transport_ != Transport::kLoopback) CountSent(frame.header.payload_bytes);
}

absl::Status StreamChannel::BeginSend(const OutgoingFrame& frame) {
  if (frame.header.payload_bytes > kMaxFramePayloadBytes) {
    return absl::InternalError(
        absl::StrCat("a frame to ", peer(), " of ", frame.header.payload_bytes,
                     " bytes; the limit is ", kMaxFramePayloadBytes));
  }
  const std::byte* payload = frame.elements;
  if (frame.encode != nullptr) {
    GrowTo(encoded_, frame.header.payload_bytes);
    frame.encode(encoded_.data(), frame.elements, frame.count);
    payload = encoded_.data();
  }
  writer_.Begin(frame.header, payload);
  is_sending_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Channel::Progress> StreamChannel::TryReceive(
    const IncomingFrame& frame) {
  if (is_closed_.load(std::memory_order_relaxed)) [[unlikely]]
    return ClosedHere();
  if (!is_receiving_) BeginReceive(frame);
  ASSIGN_OR_RETURN(const size_t got, reader_.Advance(*link_));
  if (!reader_.done()) return got > 0 ? Progress::kMoved : Progress::kBlocked;
  if (is_staged_) Place(frame);
  is_receiving_ = false;
  if (transport_ != Transport::kLoopback)
    CountReceived(frame.expected.payload_bytes);
  return Progress::kDone;
}

void StreamChannel::BeginReceive(const IncomingFrame& frame) {
  const uint32_t bytes = frame.expected.payload_bytes;
  is_staged_ = frame.decode != nullptr || bytes <= kMaxCopiedBytes;
  if (is_staged_) GrowTo(staged_, bytes);
  reader_.Begin(frame.expected, is_staged_ ? staged_.data() : frame.elements,
                /*is_scratch=*/is_staged_);
  is_receiving_ = true;
}

void StreamChannel::Place(const IncomingFrame& frame) const {
  if (frame.decode != nullptr) {
    Decode(frame, staged_.data());
  } else if (frame.expected.payload_bytes > 0) {
    std::memcpy(frame.elements, staged_.data(), frame.expected.payload_bytes);
  }
}

bool StreamChannel::BeginWait(bool for_send, bool for_receive,
                              std::vector<pollfd>& polled) {
  waits_for_send_ = for_send;
  waits_for_receive_ = for_receive;
  if (has_peer_ended_ && !for_send && !for_receive) {
    // poll would report the end again and again.
    polled.push_back({-1, 0, 0});
    return HasUnread();
  }
  // The socket itself would seem ready for bytes that a rate holds back.
  const int held_send = for_send ? link_->HeldFd(/*is_send=*/true) : -1;
  const int held_receive = for_receive ? link_->HeldFd(/*is_send=*/false) : -1;
  short events = POLLRDHUP;
  if (for_send && held_send < 0) events |= POLLOUT;
  if (for_receive && held_receive < 0) events |= POLLIN;
  polled.push_back({link_->fd(), events, 0});
  if (held_send >= 0) polled.push_back({held_send, POLLIN, 0});
  if (held_receive >= 0) polled.push_back({held_receive, POLLIN, 0});
  return true;
}

absl::Status StreamChannel::EndWait(std::span<const pollfd> polled) {
  if (is_closed_.load(std::memory_order_relaxed)) return ClosedHere();
  // The next TryReceive takes what is left and then finds the end.
  if (waits_for_receive_) return absl::OkStatus();
  const bool has_ended =
      has_peer_ended_ ||
      (polled.front().revents & (POLLERR | POLLHUP | POLLRDHUP)) != 0;
  if (!has_ended) return absl::OkStatus();
  if (HasUnread()) {
    has_peer_ended_ = true;
    if (!waits_for_send_) return absl::OkStatus();
    return ClosedByPeer(peer());
  }
  return Fate();
}

bool StreamChannel::HasUnread() const {
  int in_socket = 0;
  return reader_.holds_next() ||
         (ioctl(link_->fd(), FIONREAD, &in_socket) == 0 && in_socket > 0);
}

absl::Status StreamChannel::Fate() {
  // Nothing is left to read, so a read tells how the stream ended.
  std::byte nothing;
  const iovec part = {&nothing, 1};
  const absl::StatusOr<size_t> got = link_->TryRead(std::span(&part, 1));
  if (!got.ok()) return got.status();
  return ClosedByPeer(peer());
}

absl::Status StreamChannel::ClosedHere() const {
  return absl::UnavailableError(
      absl::StrCat("the connection to ", peer(), " was closed on our side"));
}

void StreamChannel::Close() {
  is_closed_.store(true, std::memory_order_relaxed);
  link_->Close();
}

}  // namespace ringmaster
