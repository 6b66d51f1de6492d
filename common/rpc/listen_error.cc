#include "common/rpc/listen_error.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

std::string WhyNotListening(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string why = "unknown error";
  for (const addrinfo* item = found; item != nullptr; item = item->ai_next) {
    const int fd = socket(item->ai_family, item->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    // As gRPC does; a port in TIME_WAIT is no obstacle.
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, item->ai_addr, item->ai_addrlen) != 0 || listen(fd, 1) != 0) {
      why = std::strerror(errno);
    }
    close(fd);
  }
  freeaddrinfo(found);
  return why;
}

}  // namespace

absl::Status CannotListen(const HostPort& address) {
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot listen on ", address.ToString(), ": ", WhyNotListening(address)));
}

}  // namespace ringmaster
