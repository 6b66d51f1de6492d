#include "common/status/reason.h"

#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace ringmaster {
namespace {
constexpr char kReasonUrl[] = "ringmaster.v1/reason";
}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  if (!status.ok()) {
    status.SetPayload(kReasonUrl, absl::Cord(absl::string_view(reason.data(),
                                                               reason.size())));
  }
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace ringmaster
