// Unix stream sockets beside a TCP listener, for peers on its own host: no
// network stack between the two, and descriptors can pass.
//
// They are found by the listener's TCP port: "\0ringmaster-data/<port>", an
// abstract name (unix(7)). Those live in a network namespace as TCP ports do
// and vanish with their socket. Anybody on the host may bind or connect to one,
// as to a port of loopback: only the handshake identifies the peer.
#ifndef RINGMASTER_COMMON_TRANSPORT_UNIX_SOCKET_H_
#define RINGMASTER_COMMON_TRANSPORT_UNIX_SOCKET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// A non-blocking socket that listens under the name of `tcp_port`. UNAVAILABLE
// if the name is taken, or the system has no such sockets.
[[nodiscard]] absl::StatusOr<UniqueFd> ListenUnix(uint16_t tcp_port);

// A non-blocking socket connected to the name of `tcp_port`.
//   UNAVAILABLE         nobody listens there
//   RESOURCE_EXHAUSTED  its queue is full, or no descriptors are left
[[nodiscard]] absl::StatusOr<UniqueFd> ConnectUnix(uint16_t tcp_port);

// Buffers as large as the system allows, up to what TCP links have.
void SetUnixOptions(int socket);

// "pid 4711 (unix)": the other side of a connected Unix socket.
[[nodiscard]] std::string UnixPeerName(int socket);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_UNIX_SOCKET_H_
