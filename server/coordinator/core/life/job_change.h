// Changes that users make to a job that has not ended: its priority, its queue, how many
// workers it takes, and whether it is suspended (suspension.h).
//
// One that has more workers than it is to have lets the others go between two steps
// (let_go.h); one that may have more grows (growth.h). With fewer than it is to have at
// least it goes on, and does not begin again without them. Commands that run keep their
// workers until they begin anew.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_CHANGE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_CHANGE_H_

#include <vector>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Journals the change; it is made, and the user gets an answer, once that is durable.
void OnChangeJob(Turn& turn, const ChangeRequested& change);
void OnJobChanged(Turn& turn, const JobChangedRecord& record,
                  const std::vector<RequestToken>& waiting);
void ApplyChange(Job& job, const JobChangedRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOB_CHANGE_H_
