#include "common/transport/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

using IfaddrsPtr = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

// The addresses of all interfaces; null if the system does not tell.
IfaddrsPtr Interfaces() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) found = nullptr;
  return IfaddrsPtr(found, &freeifaddrs);
}

const in_addr& V4(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
}

const in6_addr& V6(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
}

bool IsLoopbackAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(V4(address).s_addr) >> 24 == IN_LOOPBACKNET;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&V6(address));
}

// As itself, or as IPv4 where it is only mapped into IPv6 ("::ffff:10.0.0.7").
SocketAddress Unmapped(const SocketAddress& address) {
  if (address.storage.ss_family != AF_INET6 ||
      !IN6_IS_ADDR_V4MAPPED(&V6(address.get()))) {
    return address;
  }
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port());
  std::memcpy(&v4.sin_addr, V6(address.get()).s6_addr + 12, sizeof v4.sin_addr);
  SocketAddress unmapped;
  std::memcpy(&unmapped.storage, &v4, sizeof v4);
  unmapped.length = sizeof v4;
  return unmapped;
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

bool IsOfThisHost(const SocketAddress& address) {
  const SocketAddress plain = Unmapped(address);
  if (IsLoopbackAddress(plain.get())) return true;
  const IfaddrsPtr all = Interfaces();
  for (const ifaddrs* it = all.get(); it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr ||
        it->ifa_addr->sa_family != plain.storage.ss_family) {
      continue;
    }
    if (plain.storage.ss_family == AF_INET &&
        V4(it->ifa_addr).s_addr == V4(plain.get()).s_addr) {
      return true;
    }
    if (plain.storage.ss_family == AF_INET6 &&
        IN6_ARE_ADDR_EQUAL(&V6(it->ifa_addr), &V6(plain.get()))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::string> AddressOfInterface(std::string_view name) {
  const IfaddrsPtr all = Interfaces();
  if (all == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot list the network interfaces: ", strerror(errno)));
  }
  std::set<std::string> names;
  std::string v6;
  for (const ifaddrs* it = all.get(); it != nullptr; it = it->ifa_next) {
    names.insert(it->ifa_name);
    if (it->ifa_name != name || it->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (it->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &V4(it->ifa_addr), text, sizeof text);
      return std::string(text);
    }
    if (it->ifa_addr->sa_family == AF_INET6 && v6.empty() &&
        !IN6_IS_ADDR_LINKLOCAL(&V6(it->ifa_addr))) {
      inet_ntop(AF_INET6, &V6(it->ifa_addr), text, sizeof text);
      v6 = text;
    }
  }
  if (!v6.empty()) return v6;
  if (names.contains(std::string(name))) {
    return absl::FailedPreconditionError(
        absl::StrCat("network interface '", ToAbsl(name),
                     "' has no address that other hosts can use"));
  }
  return absl::NotFoundError(absl::StrCat("no network interface '",
                                          ToAbsl(name), "' here; there are ",
                                          absl::StrJoin(names, ", ")));
}

}  // namespace ringmaster
