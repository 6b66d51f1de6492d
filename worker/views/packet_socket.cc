#include "worker/views/packet_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int kBacklog = 8;

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

using UseAddress = int (*)(int socket, const sockaddr* address,
                           socklen_t length);

// A socket whose name `use` (bind, connect) takes.
absl::StatusOr<UniqueFd> NewSocket(const std::string& name, UseAddress use) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path)
    return absl::UnavailableError("the name of a Unix socket is too long");
  // It is the length that bounds an abstract name.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      use(socket.get(), reinterpret_cast<const sockaddr*>(&address),
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                 name.size())) != 0) {
    return SystemError(absl::StrCat("the Unix socket @", name));
  }
  return socket;
}

bool IsOfThisUser(int socket) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForPackets(const std::string& name) {
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket(name, ::bind));
  if (listen(socket.get(), kBacklog) != 0)
    return SystemError(absl::StrCat("the Unix socket @", name));
  return socket;
}

absl::StatusOr<UniqueFd> ConnectForPackets(const std::string& name) {
  return NewSocket(name, ::connect);
}

UniqueFd AcceptForPackets(int listening) {
  UniqueFd socket(
      accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open() && !IsOfThisUser(socket.get())) socket.Reset();
  return socket;
}

absl::Status SendPacket(int socket, std::string_view packet) {
  if (send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) >= 0)
    return absl::OkStatus();
  return SystemError("a packet was not sent");
}

absl::StatusOr<std::optional<std::string>> TakePacket(int socket,
                                                      size_t max_size) {
  std::string packet(max_size, '\0');
  while (true) {
    const ssize_t size = recv(socket, packet.data(), packet.size(), 0);
    if (size > 0) {
      packet.resize(static_cast<size_t>(size));
      return packet;
    }
    if (size == 0) return absl::UnavailableError("the other side is gone");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    return SystemError("no packet came");
  }
}

}  // namespace ringmaster
