// SocketAddress: where a TCP peer listens, in text ("10.0.0.7:4000",
// "[fd00::7]:4000", "node7:4000") and for the kernel.
#ifndef RINGMASTER_COMMON_TRANSPORT_SOCKET_ADDRESS_H_
#define RINGMASTER_COMMON_TRANSPORT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  // "10.0.0.7:4000" or "[fd00::7]:4000".
  [[nodiscard]] std::string ToString() const;
  [[nodiscard]] uint16_t port() const;
};

// The addresses of "host:port", at least one. A numeric host never blocks; a
// name asks the system's resolver, which may block for as long as that is
// configured to, so members of a job publish numeric addresses.
//   INVALID_ARGUMENT  malformed text
//   UNAVAILABLE       the name has no address now
[[nodiscard]] absl::StatusOr<std::vector<SocketAddress>> Resolve(
    std::string_view host_port);

// The address a socket is bound to, and the one it is connected to. UNAVAILABLE
// if it has none.
[[nodiscard]] absl::StatusOr<SocketAddress> LocalAddress(int socket);
[[nodiscard]] absl::StatusOr<SocketAddress> RemoteAddress(int socket);

// True if both name the same host address, whatever the port.
[[nodiscard]] bool IsSameHost(const SocketAddress& a, const SocketAddress& b);

// Returns true if `address` is one of this host's own (more exactly, of this
// network namespace's): on loopback, or on one of its interfaces now.
[[nodiscard]] bool IsOfThisHost(const SocketAddress& address);

// The address of the network interface `name`, "10.0.0.7" or "fd00::7": its
// first IPv4 one, else its first IPv6 one that other hosts can use.
//   NOT_FOUND            no such interface; lists those that exist
//   FAILED_PRECONDITION  it has no such address
//   UNAVAILABLE          the system does not tell
[[nodiscard]] absl::StatusOr<std::string> AddressOfInterface(
    std::string_view name);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SOCKET_ADDRESS_H_
