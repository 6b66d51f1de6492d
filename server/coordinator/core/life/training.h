// Training: the messages of members that train, and its deadlines.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TRAINING_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TRAINING_H_

#include "absl/time/time.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

void OnBeat(Turn& turn, Worker& worker, const BeatReceived& beat);
void OnSuspicion(Turn& turn, Worker& worker,
                 const SuspicionReceived& suspicion);
void OnFinished(Turn& turn, Worker& worker, const FinishedReceived& finished);
void OnFailed(Turn& turn, Worker& worker, const FailedReceived& failed);

// Ends `job` if every member that is left has finished.
void CheckFinished(Turn& turn, Job& job);

// Returns how long members that were asked to stop may make no progress: long
// enough to finish the step under way and to write its checkpoint. It is the
// stop budget, or two of the job's steps if that is longer, up to the progress
// cap.
[[nodiscard]] absl::Duration StopPatience(const Job& job, const Config& config);

// Asks the members of `job`, the active one, to stop for its cancel_reason. It
// is STOPPING from now on.
void StopMembers(Turn& turn, Job& job);

// Not all members that were asked to stop have stopped, and none makes
// progress.
void OnStopDeadline(Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_TRAINING_H_
