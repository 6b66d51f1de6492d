// PeerConnector makes the connection to one peer, attempt after attempt.
//
// To a peer on this host it tries the Unix socket of the peer's port first.
// Somebody else may listen there, so a failure there is never final. The choice
// between the two depends on what is known, not on how late a peer is:
//   - The Unix socket's owner refuses us for good (another job, rank, ...): it is
//     somebody else, and TCP is left for the rest of the call.
//   - Nobody listens there, or it hangs up: ask over TCP, at once.
//   - It does not answer, or has not reached our generation: go on there, but ask
//     over TCP once in a while.
//   - Asked over TCP, the peer answers (a Challenge): it is there now, so its Unix
//     socket is, if it has one. One more attempt there, and if that fails too,
//     TCP for the rest of the call.
//   - Over TCP nobody answers either: the peer is late; back to the Unix socket.
// Used by EstablishLinks only. Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_PEER_CONNECTOR_H_
#define RINGMASTER_COMMON_TRANSPORT_PEER_CONNECTOR_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/establish.h"
#include "common/transport/handshake_socket.h"
#include "common/transport/socket_address.h"
#include "common/transport/socket_link.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// "rank 3 at 10.0.0.7:40312".
[[nodiscard]] std::string PeerName(int rank, std::string_view address);

class PeerConnector {
 public:
  // `peer` and `config` must outlive this. `own_unix_port`: the port of our own
  // Unix socket, 0 for none, so that we do not connect to ourselves.
  PeerConnector(const PeerLink& peer, const EstablishConfig& config,
                uint16_t own_unix_port);

  // Begins an attempt if it is time for one.
  void StartIfDue(MonotonicTime now);
  // Gives an attempt up that has lasted for too long.
  void Expire(MonotonicTime now);
  // When one of the two is due next; InfiniteFuture once connected.
  [[nodiscard]] MonotonicTime NextEvent() const;

  // AddPolled appends what to poll for, if anything; OnReady goes on when that
  // is ready. A status that is not OK is final and about this peer
  // (BlamedPeer).
  void AddPolled(std::vector<pollfd>& polled) const;
  [[nodiscard]] bool Owns(int fd) const;
  [[nodiscard]] absl::Status OnReady();

  [[nodiscard]] bool is_connected() const { return link_ != nullptr; }
  [[nodiscard]] EstablishedLink TakeLink() { return {std::move(link_), keys_}; }
  [[nodiscard]] const PeerLink& peer() const { return peer_; }
  // The error of the last attempt that failed.
  [[nodiscard]] const absl::Status& last_error() const { return last_error_; }

 private:
  [[nodiscard]] bool is_idle() const {
    return link_ == nullptr && !connecting_.is_open() &&
           !handshake_.has_value();
  }
  [[nodiscard]] absl::Status FindAddresses();
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status BeginHandshake(UniqueFd socket);
  [[nodiscard]] absl::Status OnHandshake();
  // Called after an attempt over the Unix socket that failed.
  void ChooseTransport(const absl::Status& why, MonotonicTime now);
  // Returns the status if it is final; otherwise prepares another attempt.
  [[nodiscard]] absl::Status Failed(const absl::Status& why);

  const PeerLink& peer_;
  const EstablishConfig& config_;
  const uint16_t own_unix_port_;

  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  bool tries_unix_ = false;
  MonotonicTime tcp_at_;  // while tries_unix_: when to ask over TCP
  bool answers_over_tcp_ = false;

  MonotonicTime retry_at_;
  absl::Duration retry_delay_;
  // The attempt under way.
  bool is_over_unix_ = false;
  MonotonicTime attempt_deadline_;
  UniqueFd connecting_;  // until the connection's outcome is known
  std::optional<HandshakeSocket> handshake_;  // then
  std::unique_ptr<SocketLink> link_;          // then
  std::optional<FrameKeys> keys_;             // the link's
  absl::Status last_error_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_PEER_CONNECTOR_H_
