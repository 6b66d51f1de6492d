// MakeLoopbackChannels connects a rank with itself: two threads of one process
// communicate like two ranks.
//
// They share memory as ranks of one host do (SharedChannel), and large frames
// that lie in a side's arena are read there. Over a socket pair each byte is
// copied twice more and checksummed, which took a seventh of the processor time
// of a worker alone with its shards, at 10 and 36 MB of parameters and a batch
// of 256, and a third at one of 32. If the host has no memory for it, it falls
// back to a socket pair. Its frames do not count as traffic of the rank
// (wire_totals.h).
#ifndef RINGMASTER_COMMON_TRANSPORT_LOOPBACK_CHANNELS_H_
#define RINGMASTER_COMMON_TRANSPORT_LOOPBACK_CHANNELS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/transport/channel.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

// One of the two sides.
struct LoopbackSide {
  std::string name;  // "rank 3 as a worker": what the other one calls it
  // The memory that its large frames lie in. May be null; outlives both
  // channels.
  const SharedSegment* arena = nullptr;
};

// Returns the channels of `first` and of `second`, each with
// Transport::kLoopback. They may be destroyed in any order.
//   RESOURCE_EXHAUSTED  the process has no descriptors left
[[nodiscard]] absl::StatusOr<
    std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>>
MakeLoopbackChannels(int rank, const LoopbackSide& first,
                     const LoopbackSide& second);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_LOOPBACK_CHANNELS_H_
