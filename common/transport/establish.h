// EstablishLinks connects a rank with its peers of one generation: it connects
// to some and accepts from others, all at the same time, on the calling thread.
//
// Every connection begins with the handshake of handshake.h. A connection that
// fails it (wrong secret, other job, stale generation, unexpected rank,
// garbage, silence) is dropped with a line of its own and disturbs nobody: the
// call goes on waiting for the right peers. At most `max_half_open` unfinished
// handshakes are kept (or two for each awaited peer, if those are more); a
// further one displaces the oldest. A peer that does not listen yet, whose name
// is not known yet, or that is not in our generation yet, is tried again until
// the deadline. A peer that was accepted and has hung up since may come again
// while others are still awaited; its new connection replaces the old one.
// Between ranks of one host the links are Unix sockets where those work.
//
// A link carries bytes both ways, so two ranks need but one: say, each connects
// to the peers of lower rank and accepts from those of higher rank.
#ifndef RINGMASTER_COMMON_TRANSPORT_ESTABLISH_H_
#define RINGMASTER_COMMON_TRANSPORT_ESTABLISH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/cancel_token.h"
#include "common/transport/handshake.h"
#include "common/transport/socket_link.h"
#include "common/transport/tcp.h"

namespace ringmaster {

struct EstablishConfig {
  std::string job_id;
  int64_t generation = 0;
  int rank = 0;
  std::string secret;  // of the generation, at least kMinSecretBytes
  MonotonicTime deadline;
  Clock* clock = nullptr;  // outlives the call
  const CancelToken* cancel =
      nullptr;  // may be null; else ends the call within milliseconds
  // Called on the calling thread with one line for every dropped connection.
  // May be empty.
  std::function<void(const absl::Status& why)> on_refused;
  absl::Duration handshake_timeout =
      absl::Seconds(2);  // for one attempt, either side
  int max_half_open = 16;
  // True if the links need keys, since their frames will be encrypted.
  bool derives_keys = false;
  // True if peers on this host may be reached over Unix sockets.
  bool use_unix = true;
  // A TCP link fails if the peer's host answers nothing for this long
  // (Link::CheckPeer).
  absl::Duration silence_limit = absl::InfiniteDuration();
};

// A peer to connect to, or (address unused) to be connected from.
struct PeerLink {
  int peer_rank = 0;
  LinkRole role = LinkRole::kCollective;
  std::string address;  // "host:port" of its listener
  int stripe = 0;       // which connection of several; below kMaxConnections
};

struct EstablishedLink {
  std::unique_ptr<SocketLink> link;
  // The keys of this connection alone; nullopt without
  // EstablishConfig::derives_keys.
  std::optional<FrameKeys> keys;
};

struct EstablishedLinks {
  // In the order of `connect_to` and of `accept_from`.
  std::vector<EstablishedLink> connected;
  std::vector<EstablishedLink> accepted;
};

//   INVALID_ARGUMENT     a short secret, a negative generation, or a malformed
//                        address
//   DEADLINE_EXCEEDED    names the peers that are missing and the last refusal
//   ABORTED              cancelled; or a peer says that our generation is over
//   UNAUTHENTICATED      a peer's secret is not ours
//   FAILED_PRECONDITION  a peer of our generation does not await us
// BlamedPeer tells the peer that an error is about: one that is missing (one of
// them, if several are), or that has refused us for good, unreached (IsUnreached);
// -1 if there is none.
[[nodiscard]] absl::StatusOr<EstablishedLinks> EstablishLinks(
    const Listener& listener, const EstablishConfig& config,
    const std::vector<PeerLink>& connect_to,
    const std::vector<PeerLink>& accept_from);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_ESTABLISH_H_
