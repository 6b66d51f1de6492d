// ReachPeers finds out which peers' data ports take a connection.
#ifndef RINGMASTER_COMMON_TRANSPORT_REACH_PEERS_H_
#define RINGMASTER_COMMON_TRANSPORT_REACH_PEERS_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "common/transport/socket_address.h"

namespace ringmaster {

// Connects to all `addresses` ("host:port") over TCP at the same time, for
// `timeout`, and closes each connection as soon as it is made: no byte is sent. A
// connection that is not answered is tried again beside the first one, since the
// kernel would send a lost packet again only after a second. Returns one status
// for each, in order, with how the link failed (LinkFailureOf):
//   OK                 connected
//   UNAVAILABLE        refused by all its addresses; or, without a link failure, it
//                      could not be tried
//   DEADLINE_EXCEEDED  no answer
//   INVALID_ARGUMENT   not an address
//   ABORTED            `cancel` came first
// Blocks for `timeout` at most, and before that for as long as names take to
// resolve, which `cancel` does not cut short.
[[nodiscard]] std::vector<absl::Status> ReachPeers(
    std::span<const std::string> addresses, absl::Duration timeout,
    Clock& clock, const CancelToken& cancel);

// The same of peers whose addresses are known, or not: then that is the outcome.
struct PeerAddresses {
  std::string name;
  absl::StatusOr<std::vector<SocketAddress>> addresses;
};
[[nodiscard]] std::vector<absl::Status> ReachPeers(
    std::vector<PeerAddresses> peers, absl::Duration timeout, Clock& clock,
    const CancelToken& cancel);

// Returns false if `address` has a name, so that a name server is asked.
[[nodiscard]] bool IsNumeric(const std::string& address);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_REACH_PEERS_H_
