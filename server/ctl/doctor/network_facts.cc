// Gathers the facts of network.h.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "server/ctl/doctor/network.h"

namespace ringmaster::ctl {
namespace {

// "10.0.0.7" of 10.0.0.7:4000; without the brackets of IPv6.
std::string HostOf(const SocketAddress& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address.ToString());
  return parsed.ok() ? parsed->host : address.ToString();
}

int64_t NumberIn(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : otherwise;
}

std::string LineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

SocketAddress ToSocketAddress(const sockaddr* address) {
  SocketAddress copy;
  copy.length = address->sa_family == AF_INET ? sizeof(sockaddr_in)
                                              : sizeof(sockaddr_in6);
  std::memcpy(&copy.storage, address, copy.length);
  return copy;
}

}  // namespace

std::vector<Interface> GatherInterfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found,
                                                                &::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const SocketAddress address = ToSocketAddress(at->ifa_addr);
    const auto* const v6 =
        reinterpret_cast<const sockaddr_in6*>(&address.storage);
    // Every interface has a link-local one.
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
    const std::string directory =
        absl::StrCat("/sys/class/net/", at->ifa_name, "/");
    interfaces.push_back(
        {.name = at->ifa_name,
         .address = HostOf(address),
         .is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0,
         .mtu = static_cast<int>(NumberIn(directory + "mtu", -1)),
         .speed_mbits = static_cast<int>(NumberIn(directory + "speed", -1))});
  }
  return interfaces;
}

std::string OwnHostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

ResolvedName ResolveName(const std::string& name) {
  ResolvedName resolved{.name = name, .addresses = {}, .error = {}};
  const absl::StatusOr<std::vector<SocketAddress>> addresses =
      Resolve(HostPort{name, 1}.ToString());
  if (!addresses.ok()) {
    resolved.error = std::string(addresses.status().message());
    return resolved;
  }
  for (const SocketAddress& address : *addresses)
    resolved.addresses.push_back(HostOf(address));
  return resolved;
}

Route RouteTo(const std::string& address, int port,
              const std::vector<Interface>& interfaces) {
  Route route;
  const absl::StatusOr<std::vector<SocketAddress>> to =
      Resolve(HostPort{address, port}.ToString());
  if (!to.ok()) {
    route.error = std::string(to.status().message());
    return route;
  }
  // To connect a datagram socket asks the routing table, and sends nothing.
  const UniqueFd socket(
      ::socket(to->front().storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      ::connect(socket.get(), to->front().get(), to->front().length) != 0) {
    route.error = std::strerror(errno);
    return route;
  }
  const absl::StatusOr<SocketAddress> from = LocalAddress(socket.get());
  if (!from.ok()) {
    route.error = std::string(from.status().message());
    return route;
  }
  route.from = HostOf(*from);
  for (const Interface& interface : interfaces) {
    if (interface.address == route.from) route.interface = interface.name;
  }
  return route;
}

TcpFacts GatherTcpFacts() {
  return {
      .congestion_control = LineOf("/proc/sys/net/ipv4/tcp_congestion_control"),
      .available_controls =
          LineOf("/proc/sys/net/ipv4/tcp_available_congestion_control"),
      .receive_bytes = NumberIn("/proc/sys/net/core/rmem_max", -1),
      .send_bytes = NumberIn("/proc/sys/net/core/wmem_max", -1)};
}

PortFacts GatherPortFacts(PortRange range) {
  PortFacts facts{.range = range, .free_count = 0, .error = {}};
  for (int port = range.first; port <= range.last; ++port) {
    // On all addresses, as a worker listens.
    const absl::StatusOr<Listener> listener =
        Listener::Listen(HostPort{"::", port}.ToString());
    facts.free_count += listener.ok();
    if (!listener.ok()) facts.error = std::string(listener.status().message());
  }
  return facts;
}

}  // namespace ringmaster::ctl
