// ConnectPeers makes the channels of a rank to its peers of one generation:
// each connection authenticated with the generation's secret, several of them
// to one peer as one channel, and those inside the host moved to shared memory
// where both sides can.
#ifndef RINGMASTER_COMMON_TRANSPORT_CONNECT_PEERS_H_
#define RINGMASTER_COMMON_TRANSPORT_CONNECT_PEERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/handshake.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"

namespace ringmaster {

struct ConnectPeersConfig {
  std::string job_id;
  int64_t generation = 0;
  int rank = 0;
  std::string secret;      // of the generation; at least kMinSecretBytes
  MonotonicTime deadline;  // for all connections; a peer that then answers
                           // nothing for as long is given up too
  // The best transport to try; a slower one is used if it fails.
  Transport best_transport = Transport::kSharedMemory;
  // Frames over TCP carry this, on both sides; inside a host nothing is checked
  // or encrypted.
  FrameIntegrity integrity = FrameIntegrity::kNone;
  Clock* clock = nullptr;  // outlives the call
  // One line for every connection that was refused meanwhile, on the calling
  // thread. May be empty.
  std::function<void(const absl::Status& why)> on_refused;
  // One line for every peer that is reached over a Unix socket and shares no
  // memory. May be empty.
  std::function<void(int peer_rank, const std::string& why)> on_fallback;
};

// A channel to make. Two ranks may have several: of different roles, of the
// same role in both directions, or with stripes of different numbers.
struct PeerConnection {
  int rank = 0;
  LinkRole role = LinkRole::kCollective;
  // "host:port" of the peer's listener; empty: the peer connects.
  std::string address = {};
  // Connections, from 1 to kMaxConnections; the same on both sides. More than
  // one helps where the network limits each.
  int stripes = 1;
  // The number of the first of them, the same on both sides: channels of one
  // pair, role and direction must not share numbers, which end at
  // kMaxConnections.
  int first_stripe = 0;
  // A peer that shares memory with this rank reads in place from it. May be
  // null; must outlive the channel.
  const SharedSegment* arena = nullptr;
};

// One channel for each of `peers`, in their order. `listener` belongs to the
// process and serves generation after generation; its address is what the peers
// were given. `cancel` (may be null) ends the call within milliseconds, from
// another thread. BlamedPeer (blamed_peer.h) tells which peer an error is
// about.
//   INVALID_ARGUMENT     the configuration
//   DEADLINE_EXCEEDED    names the peers that are missing
//   ABORTED              cancelled; or a peer says that the generation is over
//   UNAUTHENTICATED, FAILED_PRECONDITION  a peer refused us for good, or broke
//                        the protocol
[[nodiscard]] absl::StatusOr<std::vector<std::unique_ptr<Channel>>>
ConnectPeers(const Listener& listener, const ConnectPeersConfig& config,
             std::span<const PeerConnection> peers, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_CONNECT_PEERS_H_
