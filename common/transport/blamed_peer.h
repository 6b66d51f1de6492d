// Errors that name the peer they are about, and how the link with it failed.
#ifndef RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_
#define RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_

#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// How a link failed. It tells who can be at fault: a process that is killed
// closes its connections at once, but so does one that stops because of a third.
enum class LinkFailure {
  kUnknown,
  kNoAnswer,  // nothing came, or was acknowledged, in time
  kClosed,    // the peer's side ended the connection
  kRefused,   // its host answers, and nobody listens
};

// That of a system call's error; 0 is the end of a stream.
[[nodiscard]] LinkFailure LinkFailureOfErrno(int error);

// `status`, which is not OK, with how the link failed. Annotate keeps it.
[[nodiscard]] absl::Status WithLinkFailure(absl::Status status,
                                           LinkFailure failure);

// That of `status`; a deadline that has passed is kNoAnswer by itself.
[[nodiscard]] LinkFailure LinkFailureOf(const absl::Status& status);

// UNAVAILABLE, kClosed: "PEER closed its connection".
[[nodiscard]] absl::Status ClosedByPeer(std::string_view peer);

// UNAVAILABLE with how the link failed: ClosedByPeer, or "WHAT failed: ERROR".
[[nodiscard]] absl::Status LinkError(std::string_view peer,
                                     std::string_view what, int error);

// `status`, which is not OK, with the rank that it is about; -1: it is nobody's
// fault. Annotate (common/status/annotate.h) keeps it.
[[nodiscard]] absl::Status WithBlamedPeer(absl::Status status, int rank);

// The rank, -1 if there is none.
[[nodiscard]] int BlamedPeer(const absl::Status& status);
// WithBlamedPeer has said whose fault it is.
[[nodiscard]] bool IsBlameKnown(const absl::Status& status);

// As WithBlamedPeer, if no connection with the peer was ever made. A broken
// connection may be a consequence of the peer stopping for reasons of its own;
// one that was never made is not.
[[nodiscard]] absl::Status WithUnreachedPeer(absl::Status status, int rank);
[[nodiscard]] bool IsUnreached(const absl::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_BLAMED_PEER_H_
