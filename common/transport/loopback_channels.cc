#include "common/transport/loopback_channels.h"

#include <fcntl.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "common/transport/link.h"
#include "common/transport/shared_channel.h"
#include "common/transport/shared_layout.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {
namespace {

constexpr SharedSlots kSlots = {};

// A second mapping, so that the side that is left may read what the other had
// mapped.
absl::StatusOr<PeerSegment> MapAgain(const SharedSegment& segment) {
  return PeerSegment::Map(UniqueFd(fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)),
                          segment.bytes());
}

// The memory of one side, as both have it.
struct SharedMemory {
  SharedChannel::Side own;
  SharedChannel::PeerSide at_peer;
};

absl::StatusOr<SharedMemory> MakeMemory(int rank, const LoopbackSide& side) {
  RETURN_IF_ERROR(FAIL_POINT("share_memory.create"));
  ASSIGN_OR_RETURN(
      SharedSegment segment,
      SharedSegment::Create(absl::StrCat("ringmaster ", rank, " to itself"),
                            SegmentBytes(kSlots)));
  ASSIGN_OR_RETURN(PeerSegment mapped, MapAgain(segment));
  std::optional<PeerSegment> arena;
  if (side.arena != nullptr) {
    ASSIGN_OR_RETURN(arena, MapAgain(*side.arena));
  }
  return SharedMemory{{std::move(segment), kSlots, side.arena},
                      {std::move(mapped), kSlots, std::move(arena)}};
}

}  // namespace

absl::StatusOr<std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>>
MakeLoopbackChannels(int rank, const LoopbackSide& first,
                     const LoopbackSide& second) {
  ASSIGN_OR_RETURN(auto links, LoopbackPair(second.name, first.name));
  absl::StatusOr<SharedMemory> of_first = MakeMemory(rank, first);
  absl::StatusOr<SharedMemory> of_second = MakeMemory(rank, second);
  absl::Status shared = of_first.status();
  shared.Update(of_second.status());
  if (!shared.ok()) {
    LogEvent(LogLevel::kInfo, "connection.no_shared_memory",
             {{"peer", rank}, {"message", shared.message()}});
    return std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>(
        std::make_unique<StreamChannel>(rank, std::move(links.first),
                                        Transport::kLoopback),
        std::make_unique<StreamChannel>(rank, std::move(links.second),
                                        Transport::kLoopback));
  }
  return std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>>(
      std::make_unique<SharedChannel>(
          rank, std::move(links.first), std::move(of_first->own),
          std::move(of_second->at_peer), Transport::kLoopback),
      std::make_unique<SharedChannel>(
          rank, std::move(links.second), std::move(of_second->own),
          std::move(of_first->at_peer), Transport::kLoopback));
}

}  // namespace ringmaster
