#include "common/transport/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int kBufferBytes = 4 << 20;
constexpr int kBacklog = 128;

struct AbstractName {
  sockaddr_un address = {};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

// The length bounds an abstract name, no zero at its end does.
AbstractName NameOf(uint16_t tcp_port) {
  const std::string text = absl::StrCat("ringmaster-data/", tcp_port);
  AbstractName name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

std::string Describe(uint16_t tcp_port) {
  return absl::StrCat("the Unix socket @ringmaster-data/", tcp_port);
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open()) return socket;
  const int error = errno;
  const std::string text =
      absl::StrCat("cannot make a Unix socket: ", strerror(error));
  if (error == EMFILE || error == ENFILE)
    return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenUnix(uint16_t tcp_port) {
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  const AbstractName name = NameOf(tcp_port);
  if (bind(socket.get(), name.get(), name.length) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", Describe(tcp_port), ": ", strerror(errno)));
  }
  return socket;
}

absl::StatusOr<UniqueFd> ConnectUnix(uint16_t tcp_port) {
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  const AbstractName name = NameOf(tcp_port);
  if (connect(socket.get(), name.get(), name.length) != 0) {
    const int error = errno;
    const std::string text = absl::StrCat(
        "cannot connect to ", Describe(tcp_port), ": ", strerror(error));
    if (error == EAGAIN) return absl::ResourceExhaustedError(text);
    return absl::UnavailableError(text);
  }
  SetUnixOptions(socket.get());
  return socket;
}

void SetUnixOptions(int socket) {
  // Only the sender's counts. The kernel takes what net.core.wmem_max allows.
  (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kBufferBytes,
                   sizeof kBufferBytes);
}

std::string UnixPeerName(int socket) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return "(unix)";
  return absl::StrCat("pid ", peer.pid, " (unix)");
}

}  // namespace ringmaster
