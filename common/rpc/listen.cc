#include "common/rpc/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"

namespace ringmaster {
namespace {

absl::Status Failed(const HostPort& address, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

// The port lies at the same place in both kinds of address.
void SetPort(int port, SocketAddress& address) {
  reinterpret_cast<sockaddr_in&>(address.storage).sin_port =
      htons(static_cast<uint16_t>(port));
}

// A socket that listens there; not open, with the reason in `why`, if that fails.
UniqueFd ListenAt(const SocketAddress& address, std::string& why) {
  UniqueFd fd(socket(address.storage.ss_family,
                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int error =
      fd.is_open() ? BindAndListen(fd.get(), address, SOMAXCONN) : errno;
  if (error == 0) return fd;
  if (why.empty()) why = std::strerror(error);
  return UniqueFd();
}

absl::StatusOr<ListeningSockets> ListenOnResolved(const HostPort& address) {
  absl::StatusOr<std::vector<SocketAddress>> resolved =
      Resolve(address.ToString());
  if (!resolved.ok()) return Failed(address, resolved.status().message());
  ListeningSockets listening = {.port = address.port};
  std::string why;
  for (SocketAddress& each : *resolved) {
    SetPort(listening.port, each);  // which the first socket may have chosen
    UniqueFd fd = ListenAt(each, why);
    if (!fd.is_open()) continue;
    const absl::StatusOr<SocketAddress> bound = LocalAddress(fd.get());
    if (!bound.ok()) return bound.status();
    listening.port = bound->port();
    listening.sockets.push_back(std::move(fd));
  }
  if (listening.sockets.empty()) return Failed(address, why);
  return listening;
}

}  // namespace

absl::StatusOr<ListeningSockets> ListenOn(const HostPort& address) {
  if (address.host == "0.0.0.0") {
    absl::StatusOr<ListeningSockets> both =
        ListenOnResolved({"::", address.port});
    if (both.ok()) return both;
  }
  return ListenOnResolved(address);
}

absl::Status CannotListen(const HostPort& address) {
  const absl::StatusOr<ListeningSockets> again = ListenOn(address);
  return again.ok() ? Failed(address, "unknown error") : again.status();
}

}  // namespace ringmaster
