// Sockets of packets between processes of one user on one host, found by a name
// (unix(7): SOCK_SEQPACKET, abstract names).
#ifndef RINGMASTER_WORKER_VIEWS_PACKET_SOCKET_H_
#define RINGMASTER_WORKER_VIEWS_PACKET_SOCKET_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// Sockets are non-blocking. UNAVAILABLE: the system's reason.
[[nodiscard]] absl::StatusOr<UniqueFd> ListenForPackets(
    const std::string& name);
// UNAVAILABLE also if nobody listens there.
[[nodiscard]] absl::StatusOr<UniqueFd> ConnectForPackets(
    const std::string& name);
// A waiting connection of a process of this user or of root's; one that is not
// open: there is none.
[[nodiscard]] UniqueFd AcceptForPackets(int listening);

// UNAVAILABLE: the other side is gone, or has left too many packets unread.
[[nodiscard]] absl::Status SendPacket(int socket, std::string_view packet);
// Nullopt: none is here. UNAVAILABLE: the other side is gone.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> TakePacket(
    int socket, size_t max_size);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_VIEWS_PACKET_SOCKET_H_
