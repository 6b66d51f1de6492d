// What members say while they train, and the deadlines of training.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TRAINING_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TRAINING_H_

#include "server/coordinator/core/event.h"
#include "server/coordinator/core/turn.h"

namespace ringmaster::coordinator {

void OnBeat(Turn& turn, Worker& worker, const BeatReceived& beat);
void OnSuspicion(Turn& turn, const Worker& worker,
                 const SuspicionReceived& suspicion);
void OnFinished(Turn& turn, Worker& worker, const FinishedReceived& finished);
void OnFailed(Turn& turn, const Worker& worker, const FailedReceived& failed);

// Ends `job` if every member that is left has finished.
void CheckFinished(Turn& turn, Job& job);

// When the lack of progress of `job` is to be acted upon; InfiniteFuture in
// states that have another bound.
[[nodiscard]] MonotonicTime ProgressDeadline(const Job& job,
                                             const Config& config);
void OnProgressDeadline(Turn& turn, Job& job);

// Suspicions that nothing has explained: the link is at fault.
void OnSuspicionDeadline(Turn& turn, Job& job);

// How long members that were asked to stop may make no progress, so that the
// step under way is finished and its checkpoint written: the stop budget, or
// two of the job's steps if that is longer, up to the progress cap.
[[nodiscard]] absl::Duration StopPatience(const Job& job, const Config& config);

// Members that were asked to stop have not all stopped, and none gets on.
void OnStopDeadline(Turn& turn, Job& job);

// Whom to blame when nobody makes progress: of the members that have not
// prepared (PREPARING) or finished, and then of those that are not themselves
// waiting for a peer, the one with the lowest collective, then the lowest rank.
// If all wait, of all.
// Requires a member that is not lost.
[[nodiscard]] const Member& FindStuckMember(const State& state, const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TRAINING_H_
