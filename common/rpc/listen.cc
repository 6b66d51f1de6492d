#include "common/rpc/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/socket_address.h"

namespace ringmaster {
namespace {

absl::Status Failed(const HostPort& address, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

// A socket that listens there; not open, and errno says why, if that fails.
UniqueFd ListenAt(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fd;
  // A port in TIME_WAIT is no obstacle, one that is in use is.
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const int no = 0;
  if (family == AF_INET6)
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (bind(fd.get(), address.get(), address.length) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return UniqueFd();
  }
  return fd;
}

absl::StatusOr<ListeningSockets> ListenOnResolved(const HostPort& address) {
  ListeningSockets listening = {.port = address.port};
  std::string why;
  for (size_t i = 0;; ++i) {
    // Again each time: the first socket may have chosen the port.
    const absl::StatusOr<std::vector<SocketAddress>> resolved =
        Resolve(HostPort{address.host, listening.port}.ToString());
    if (!resolved.ok()) {
      why = std::string(resolved.status().message());
      break;
    }
    if (i >= resolved->size()) break;
    UniqueFd fd = ListenAt((*resolved)[i]);
    if (!fd.is_open()) {
      if (why.empty()) why = std::strerror(errno);
      continue;
    }
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
