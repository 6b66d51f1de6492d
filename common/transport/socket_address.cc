#include "common/transport/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

absl::string_view ToAbsl(std::string_view text) {
  return {text.data(), text.size()};
}

using AddrinfoPtr = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// getaddrinfo with `flags`; the list may be null when the result is not 0.
int Lookup(const HostPort& at, int flags, AddrinfoPtr& list) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(at.host.c_str(), absl::StrCat(at.port).c_str(),
                                 &hints, &found);
  list.reset(found);
  return result;
}

}  // namespace

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr,
              text, sizeof text);
    return absl::StrCat(text, ":", port());
  }
  if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr, text,
              sizeof text);
    return absl::StrCat("[", text, "]:", port());
  }
  return "(no address)";
}

uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  }
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  }
  return 0;
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(std::string_view host_port) {
  ASSIGN_OR_RETURN(const HostPort at, ParseHostPort(host_port));
  AddrinfoPtr list(nullptr, &freeaddrinfo);
  int result = Lookup(at, AI_NUMERICHOST, list);
  if (result != 0) result = Lookup(at, 0, list);
  if (result != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot resolve '", ToAbsl(host_port), "': ", gai_strerror(result)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* it = list.get(); it != nullptr; it = it->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, it->ai_addr, it->ai_addrlen);
    address.length = it->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

absl::StatusOr<SocketAddress> LocalAddress(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return absl::UnavailableError(
        absl::StrCat("getsockname failed: ", strerror(errno)));
  }
  return address;
}

absl::StatusOr<SocketAddress> RemoteAddress(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.length) != 0) {
    return absl::UnavailableError(
        absl::StrCat("getpeername failed: ", strerror(errno)));
  }
  return address;
}

bool IsSameHost(const SocketAddress& a, const SocketAddress& b) {
  if (a.storage.ss_family != b.storage.ss_family) return false;
  if (a.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b.storage).sin_addr.s_addr;
  }
  if (a.storage.ss_family == AF_INET6) {
    return std::memcmp(
               &reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr,
               &reinterpret_cast<const sockaddr_in6&>(b.storage).sin6_addr,
               sizeof(in6_addr)) == 0;
  }
  return false;
}

}  // namespace ringmaster
