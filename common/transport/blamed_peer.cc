#include "common/transport/blamed_peer.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace ringmaster {
namespace {
constexpr char kBlamedPeerUrl[] = "ringmaster.v1/blamed_peer";
constexpr char kUnreachedUrl[] = "ringmaster.v1/unreached";
constexpr char kFailureUrl[] = "ringmaster.v1/link_failure";
}  // namespace

LinkFailure LinkFailureOfErrno(int error) {
  switch (error) {
    case 0:
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
      return LinkFailure::kClosed;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
      return LinkFailure::kNoAnswer;
    case ECONNREFUSED:
      return LinkFailure::kRefused;
    default:
      return LinkFailure::kUnknown;
  }
}

absl::Status WithLinkFailure(absl::Status status, LinkFailure failure) {
  status.SetPayload(kFailureUrl,
                    absl::Cord(absl::StrCat(static_cast<int>(failure))));
  return status;
}

LinkFailure LinkFailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFailureUrl);
  int failure = 0;
  if (payload.has_value() && absl::SimpleAtoi(std::string(*payload), &failure))
    return static_cast<LinkFailure>(failure);
  return absl::IsDeadlineExceeded(status) ? LinkFailure::kNoAnswer
                                          : LinkFailure::kUnknown;
}

absl::Status ClosedByPeer(std::string_view peer) {
  return WithLinkFailure(absl::UnavailableError(absl::StrCat(
                             absl::string_view(peer.data(), peer.size()),
                             " closed its connection")),
                         LinkFailure::kClosed);
}

absl::Status LinkError(std::string_view peer, std::string_view what,
                       int error) {
  const LinkFailure failure = LinkFailureOfErrno(error);
  if (failure == LinkFailure::kClosed) return ClosedByPeer(peer);
  return WithLinkFailure(absl::UnavailableError(absl::StrCat(
                             absl::string_view(what.data(), what.size()),
                             " failed: ", strerror(error))),
                         failure);
}

absl::Status WithBlamedPeer(absl::Status status, int rank) {
  status.SetPayload(kBlamedPeerUrl, absl::Cord(absl::StrCat(rank)));
  return status;
}

int BlamedPeer(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kBlamedPeerUrl);
  int rank = -1;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &rank))
    return -1;
  return rank;
}

bool IsBlameKnown(const absl::Status& status) {
  return status.GetPayload(kBlamedPeerUrl).has_value();
}

absl::Status WithUnreachedPeer(absl::Status status, int rank) {
  status = WithBlamedPeer(std::move(status), rank);
  status.SetPayload(kUnreachedUrl, absl::Cord());
  return status;
}

bool IsUnreached(const absl::Status& status) {
  return status.GetPayload(kUnreachedUrl).has_value();
}

}  // namespace ringmaster
