// Rehearsal: a worker that is to join a job that runs prepares for it first,
// while the members train on. They are asked to pause only when it is ready
// (growth.h); what it fails of costs them nothing.
//
// A rehearsal is an assignment under a number that no generation has. It is
// answered as an assignment is: Prepared, and the worker is ready, if it is as
// the members were; or Failed, and it is released, its host unfit for the job.
// One that is not ready within Config::progress_cap is released too, and its host
// left out. It ends with the session, and with the job. Workers that do not know rehearsals, and those of
// jobs whose parameters are in shards, prepare as members, while all wait.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REHEARSAL_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REHEARSAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `number` names the rehearsal that `worker` is in.
[[nodiscard]] bool IsRehearsal(const Worker& worker, int64_t number);

// Asks those of `joining`, workers that are to join `job`, to prepare who were
// not asked yet. Returns true if all are ready, or need not be.
[[nodiscard]] bool Rehearse(Turn& turn, Job& job,
                            const std::vector<const Worker*>& joining);

void OnRehearsed(Turn& turn, Job& job, Worker& worker,
                 const PreparedReceived& prepared);
void OnRehearsalFailed(Turn& turn, Job& job, Worker& worker,
                       const FailedReceived& failed);
void OnRehearsalDeadline(Turn& turn, Job& job);

// Lets `worker` go, which was to join a job, and tells it `why`.
void EndRehearsal(Turn& turn, Worker& worker, std::string why);
// The same for all that were to join `job`.
void EndRehearsals(Turn& turn, Job& job, const std::string& why);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REHEARSAL_H_
