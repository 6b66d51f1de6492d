#include "common/transport/socket_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/tcp.h"

namespace ringmaster {
namespace {
constexpr int kLooksPerLimit = 16;
constexpr int kLoopbackBufferBytes = 1 << 20;

bool IsWouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}
}  // namespace

SocketLink::SocketLink(UniqueFd socket, std::string peer,
                       absl::Duration silence_limit, Transport transport)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      transport_(transport),
      silence_limit_(transport == Transport::kTcp ? silence_limit
                                                  : absl::InfiniteDuration()),
      rate_(transport == Transport::kTcp ? LinkRate::OfProcess() : nullptr) {
  ProbeWhenIdle(socket_.get(), silence_limit_);
}

absl::Status SocketLink::CheckPeer(MonotonicTime now) {
  if (silence_limit_ == absl::InfiniteDuration() || now < look_at_) {
    return absl::OkStatus();
  }
  look_at_ = now + silence_limit_ / kLooksPerLimit;
  if (!IsUnanswered(socket_.get())) {
    silent_since_ = MonotonicTime::InfiniteFuture();
    return absl::OkStatus();
  }
  silent_since_ = std::min(silent_since_, now);
  if (now - silent_since_ < silence_limit_) return absl::OkStatus();
  return WithLinkFailure(
      absl::UnavailableError(
          absl::StrCat(peer_, " has acknowledged nothing for ",
                       absl::FormatDuration(silence_limit_),
                       ": the network between us drops packets, or its host is "
                       "gone")),
      LinkFailure::kNoAnswer);
}

std::span<const iovec> SocketLink::Allowed(LinkRate::Direction direction,
                                           std::span<const iovec> parts) {
  if (rate_ == nullptr) return parts;
  size_t left = rate_->Allowed(direction, Clock::Real().Now());
  holds_[direction].is_held = left == 0;
  cut_.clear();
  for (const iovec& part : parts) {
    if (left == 0) break;
    cut_.push_back({part.iov_base, std::min(part.iov_len, left)});
    left -= cut_.back().iov_len;
  }
  return cut_;
}

void SocketLink::Pass(LinkRate::Direction direction, size_t bytes) {
  if (rate_ != nullptr) rate_->Pass(direction, bytes, Clock::Real().Now());
}

int SocketLink::HeldFd(bool is_send) {
  const auto direction = is_send ? LinkRate::kSend : LinkRate::kReceive;
  Hold& hold = holds_[direction];
  if (rate_ == nullptr || !hold.is_held) return -1;
  if (!hold.timer.is_open()) {
    hold.timer =
        UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  }
  // Without a descriptor left the wait is on the socket, and is a busy one.
  if (!hold.timer.is_open()) return -1;
  const absl::Duration wait = rate_->FreeAt(direction) - Clock::Real().Now();
  itimerspec when = {};
  // Zero would disarm it.
  when.it_value =
      absl::ToTimespec(std::max(wait, absl::Duration(absl::Microseconds(1))));
  timerfd_settime(hold.timer.get(), 0, &when, nullptr);
  return hold.timer.get();
}

absl::StatusOr<size_t> SocketLink::TryWrite(std::span<const iovec> all) {
  const std::span<const iovec> parts = Allowed(LinkRate::kSend, all);
  if (parts.empty()) return size_t{0};
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const ssize_t written =
      sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written >= 0) {
    Pass(LinkRate::kSend, static_cast<size_t>(written));
    return static_cast<size_t>(written);
  }
  if (IsWouldBlock(errno)) return size_t{0};
  return Failed("write to", errno);
}

absl::StatusOr<size_t> SocketLink::TryRead(std::span<const iovec> all) {
  const std::span<const iovec> parts = Allowed(LinkRate::kReceive, all);
  if (parts.empty()) return size_t{0};
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (got > 0) {
    Pass(LinkRate::kReceive, static_cast<size_t>(got));
    return static_cast<size_t>(got);
  }
  if (got == 0) return ClosedByPeer(peer_);
  if (IsWouldBlock(errno)) return size_t{0};
  return Failed("read from", errno);
}

bool SocketLink::HasHungUp() const {
  pollfd state = {socket_.get(), POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0;
}

void SocketLink::Close() { shutdown(socket_.get(), SHUT_RDWR); }

absl::Status SocketLink::Failed(const char* what, int error) const {
  return LinkError(peer_, absl::StrCat(what, " ", peer_), error);
}

absl::StatusOr<std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>>
LoopbackPair(std::string first_peer, std::string second_peer) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                 sockets) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("socketpair failed: ", strerror(errno)));
  }
  for (const int socket : sockets) {
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kLoopbackBufferBytes,
               sizeof kLoopbackBufferBytes);
  }
  return std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>(
      std::make_unique<SocketLink>(UniqueFd(sockets[0]), std::move(first_peer),
                                   absl::InfiniteDuration(),
                                   Transport::kLoopback),
      std::make_unique<SocketLink>(UniqueFd(sockets[1]), std::move(second_peer),
                                   absl::InfiniteDuration(),
                                   Transport::kLoopback));
}

}  // namespace ringmaster
