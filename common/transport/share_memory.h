// MakeChannels turns the connected streams of a generation into channels: those
// inside the host over shared memory if both sides can, all others as they are.
//
// On each Unix stream both sides send an offer, with the descriptors of what
// they would share, or say why they share nothing; after two offers each maps
// the other's and says whether it could. Only then, and only if both could, is
// it a SharedChannel; both come to the same result. It is no error if memory is
// refused or switched off: the stream continues. Any other answer is an error:
// an authenticated member misbehaves.
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARE_MEMORY_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARE_MEMORY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/frame_cipher.h"
#include "common/transport/link.h"
#include "common/transport/shared_layout.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

struct ShareMemoryConfig {
  int rank = 0;
  MonotonicTime deadline;
  Clock* clock = nullptr;  // outlives the call
  const CancelToken* cancel =
      nullptr;  // may be null; else ends the call within milliseconds
  bool use_shared_memory = true;
  SharedSlots slots = {};  // of each channel, in our direction
  // Frames over TCP carry this; inside a host nothing is checked or encrypted.
  FrameIntegrity integrity = FrameIntegrity::kNone;
  // Called on the calling thread for each Unix stream that stays one. May be
  // empty.
  std::function<void(int peer_rank, const std::string& why)> on_fallback = {};
};

// A stream to a peer, right after the handshake.
struct PeerStream {
  int peer_rank = 0;
  std::unique_ptr<Link> link;
  Transport transport = Transport::kTcp;  // kUnix: its memory can be shared
  // The peer reads large frames that lie in it in place. May be null; outlives
  // the channel.
  const SharedSegment* arena = nullptr;
  std::optional<FrameKeys> keys = {};  // of frames that are encrypted
};

// One channel for each of `streams`, in their order. On an error all of them
// are closed, and BlamedPeer (blamed_peer.h) names the peer that it is about.
//   INVALID_ARGUMENT     slots that cannot be
//   DEADLINE_EXCEEDED    names the peers that have said nothing, or not enough
//   ABORTED              cancelled, or what the token says
//   UNAVAILABLE          a peer is gone
//   FAILED_PRECONDITION  a peer sent what nobody sends: garbage, no or too many
//                        descriptors, memory that is smaller than it says or
//                        not sealed
[[nodiscard]] absl::StatusOr<std::vector<std::unique_ptr<Channel>>>
MakeChannels(const ShareMemoryConfig& config, std::vector<PeerStream> streams);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARE_MEMORY_H_
