// Listener and the socket options of the data plane.
//
// Options: TCP_NODELAY, 4 MiB buffers both ways, and on a link inside one host
// cubic (else reno) where the kernel's default is BBR, whose pacing costs a
// small ring on loopback a factor of a hundred.
//
// A connection on which the network silently drops packets is detected in two
// ways: by probes while it is idle (ProbeWhenIdle), and by missing
// acknowledgements while data is under way (IsUnanswered).
#ifndef RINGMASTER_COMMON_TRANSPORT_TCP_H_
#define RINGMASTER_COMMON_TRANSPORT_TCP_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/socket_address.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// A bound, listening TCP socket, and where possible the Unix socket of its port
// (unix_socket.h) for peers on this host: the data-plane address of a worker,
// stable over its generations. Connections that nobody accepts wait in the
// kernel's queues. Thread-safe (immutable).
class Listener {
 public:
  // Listens on "host:port"; port 0 lets the kernel choose. "[::]:0" takes IPv4
  // as well.
  //   INVALID_ARGUMENT  malformed address
  //   UNAVAILABLE       the address is in use or not this host's
  [[nodiscard]] static absl::StatusOr<Listener> Listen(
      std::string_view host_port);

  // Listens on the first port from `first` to `last` that is free on `host`.
  //   INVALID_ARGUMENT    malformed address, or not 1 <= first <= last
  //   RESOURCE_EXHAUSTED  all of them are in use
  //   UNAVAILABLE         not this host's address, or a port not for us
  [[nodiscard]] static absl::StatusOr<Listener> ListenInRange(
      std::string_view host, uint16_t first, uint16_t last);

  [[nodiscard]] uint16_t port() const { return address_.port(); }
  [[nodiscard]] const SocketAddress& address() const { return address_; }
  // Non-blocking; readable when a connection waits.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // The same for the Unix socket; -1 without one, and unix_status() says why.
  [[nodiscard]] int unix_fd() const { return unix_.get(); }
  [[nodiscard]] const absl::Status& unix_status() const { return unix_status_; }

  // A waiting connection, non-blocking and with the options above, or one that
  // is not open if none waits.
  //   RESOURCE_EXHAUSTED  no descriptors left; the connection stays in the
  //   queue
  [[nodiscard]] absl::StatusOr<UniqueFd> TryAccept() const;
  // The same from the Unix socket, which must be there.
  [[nodiscard]] absl::StatusOr<UniqueFd> TryAcceptUnix() const;

 private:
  Listener(UniqueFd socket, const SocketAddress& address,
           absl::StatusOr<UniqueFd> unix_socket);

  [[nodiscard]] absl::StatusOr<UniqueFd> Accept(int listening) const;

  UniqueFd socket_;
  SocketAddress address_;
  absl::Status unix_status_;
  UniqueFd unix_;
};

// Has `socket` listen on `address`; IPv6 takes IPv4 as well, and a port in
// TIME_WAIT is no obstacle. Returns the errno, 0 for success.
[[nodiscard]] int BindAndListen(int socket, const SocketAddress& address,
                                int backlog);

// Begins to connect to `address` without blocking: the socket becomes writable
// when the outcome is known; ConnectResult then returns it. UNAVAILABLE if the
// kernel refuses at once.
[[nodiscard]] absl::StatusOr<UniqueFd> BeginConnect(
    const SocketAddress& address);

// OK once connected, with the options set; UNAVAILABLE with the kernel's reason
// (LinkFailureOf) if the attempt failed.
[[nodiscard]] absl::Status ConnectResult(int socket);

// Makes the kernel probe the peer of an idle connection, so that it fails with
// ETIMEDOUT once the peer's host has not answered for `limit` (in whole
// seconds, at least 3, rounded up). Infinite: never.
void ProbeWhenIdle(int socket, absl::Duration limit);

// Returns true if segments were resent several times, or probes sent, without
// an answer since. It may be true for a moment on any lossy network; if the
// peer's host is cut off or gone, it stays true from the first second or two
// on. It is not true merely because the peer reads nothing, like a rank that
// computes for long; TCP_USER_TIMEOUT mistakes such a peer for a dead one, so
// it is of no use here.
[[nodiscard]] bool IsUnanswered(int socket);

// The congestion control to set on a link inside one host, "" to leave it:
// `current` is the socket's, `available` the kernel's list, separated by
// spaces.
[[nodiscard]] std::string LocalCongestionControl(std::string_view current,
                                                 std::string_view available);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_TCP_H_
