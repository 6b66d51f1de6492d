#include "common/transport/blamed_peer.h"

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
}  // namespace

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

absl::Status WithUnreachedPeer(absl::Status status, int rank) {
  status = WithBlamedPeer(std::move(status), rank);
  status.SetPayload(kUnreachedUrl, absl::Cord());
  return status;
}

bool IsUnreached(const absl::Status& status) {
  return status.GetPayload(kUnreachedUrl).has_value();
}

}  // namespace ringmaster
