#include "worker/train/run_outcome.h"

#include "common/status/exit_code.h"

namespace ringmaster {

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

RunOutcome FailedOutcome(const absl::Status& status, const RunEndPlace& place) {
  RunOutcome outcome;
  outcome.applied_step = place.applied_step;
  outcome.complete_step = place.complete_step;
  outcome.status = status;
  if (place.is_cancelled) {
    outcome.kind = RunOutcome::Kind::kInterrupted;
    return outcome;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      // Alone, nobody else can have failed.
      outcome.kind = place.members > 1 ? RunOutcome::Kind::kPeerFailed
                                       : RunOutcome::Kind::kFailed;
      outcome.peer_rank = place.blamed_rank;
      break;
    case absl::StatusCode::kFailedPrecondition:
      outcome.kind = RunOutcome::Kind::kFailed;
      outcome.status = WithExitCode(status, ExitCode::kPlanMismatch);
      break;
    default:
      outcome.kind = RunOutcome::Kind::kFailed;
  }
  return outcome;
}

}  // namespace ringmaster
