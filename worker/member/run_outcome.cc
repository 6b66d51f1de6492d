#include "worker/member/run_outcome.h"

#include "absl/strings/cord.h"
#include "common/status/exit_code.h"
#include "common/transport/blamed_peer.h"

namespace ringmaster {
namespace {
constexpr char kOtherStateUrl[] = "ringmaster.v1/other_state";
}  // namespace

RunOutcome::Kind KindOf(DoneKind end) {
  switch (end) {
    case DoneKind::kFinished:
      return RunOutcome::Kind::kFinished;
    case DoneKind::kStopped:
      return RunOutcome::Kind::kStopped;
    case DoneKind::kDrained:
      break;
  }
  return RunOutcome::Kind::kDrained;
}

bool IsOfPeers(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsAborted(status);
}

absl::Status OtherStateError(std::string_view message, int rank) {
  absl::Status status = WithBlamedPeer(
      absl::UnavailableError(absl::string_view(message.data(), message.size())),
      rank);
  status.SetPayload(kOtherStateUrl, absl::Cord());
  return status;
}

RunOutcome FailedOutcome(const absl::Status& status, const RunEndPlace& place) {
  RunOutcome outcome;
  outcome.applied_step = place.applied_step;
  outcome.complete_step = place.complete_step;
  outcome.status = status;
  if (place.is_cancelled) {
    outcome.kind = RunOutcome::Kind::kInterrupted;
    return outcome;
  }
  if (IsOfPeers(status)) {
    // In a world of one, no other rank can have failed.
    outcome.kind = place.members > 1 ? RunOutcome::Kind::kPeerFailed
                                     : RunOutcome::Kind::kFailed;
    outcome.peer_rank = place.blamed_rank;
    outcome.is_unreached = IsUnreached(status);
    outcome.holds_other_state = status.GetPayload(kOtherStateUrl).has_value();
    return outcome;
  }
  outcome.kind = RunOutcome::Kind::kFailed;
  if (absl::IsFailedPrecondition(status))
    outcome.status = WithExitCode(status, ExitCode::kPlanMismatch);
  return outcome;
}

}  // namespace ringmaster
