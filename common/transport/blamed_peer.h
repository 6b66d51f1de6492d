// Errors that name the peer they are about.
#ifndef RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_
#define RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_

#include "absl/status/status.h"

namespace ringmaster {

// `status`, which is not OK, with the rank that it is about. Annotate
// (common/status/annotate.h) keeps it.
[[nodiscard]] absl::Status WithBlamedPeer(absl::Status status, int rank);

// The rank, -1 if there is none.
[[nodiscard]] int BlamedPeer(const absl::Status& status);

// As WithBlamedPeer, if no connection with the peer was ever made. A broken
// connection may be a consequence of the peer stopping for reasons of its own;
// one that was never made is not.
[[nodiscard]] absl::Status WithUnreachedPeer(absl::Status status, int rank);
[[nodiscard]] bool IsUnreached(const absl::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_
