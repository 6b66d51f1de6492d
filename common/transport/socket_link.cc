#include "common/transport/socket_link.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {
constexpr int kLoopbackBufferBytes = 1 << 20;

bool IsWouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}
}  // namespace

SocketLink::SocketLink(UniqueFd socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {}

absl::StatusOr<size_t> SocketLink::TryWrite(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const ssize_t written =
      sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written >= 0) return static_cast<size_t>(written);
  if (IsWouldBlock(errno)) return size_t{0};
  return Failed("write to", errno);
}

absl::StatusOr<size_t> SocketLink::TryRead(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) {
    return absl::UnavailableError(
        absl::StrCat(peer_, " closed its connection"));
  }
  if (IsWouldBlock(errno)) return size_t{0};
  return Failed("read from", errno);
}

void SocketLink::Close() { shutdown(socket_.get(), SHUT_RDWR); }

absl::Status SocketLink::Failed(const char* what, int error) const {
  if (error == EPIPE || error == ECONNRESET) {
    return absl::UnavailableError(
        absl::StrCat(peer_, " closed its connection"));
  }
  return absl::UnavailableError(
      absl::StrCat(what, " ", peer_, " failed: ", strerror(error)));
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
      std::make_unique<SocketLink>(UniqueFd(sockets[0]), std::move(first_peer)),
      std::make_unique<SocketLink>(UniqueFd(sockets[1]),
                                   std::move(second_peer)));
}

}  // namespace ringmaster
