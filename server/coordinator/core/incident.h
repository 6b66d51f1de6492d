// Incidents: what each interruption of a job cost, and where.
//
// The parts of the core tell of the turning points of a recovery; these
// functions keep the job's record of it (Job::incidents). An incident is open
// from the halt to the first step committed after it; a further halt before
// that belongs to it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_INCIDENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_INCIDENT_H_

#include "server/coordinator/core/turn.h"

namespace ringmaster::coordinator {

// The incident that `job` is recovering from, or null.
[[nodiscard]] Incident* OpenIncident(Job& job);
[[nodiscard]] const Incident* OpenIncident(const Job& job);

// A halt of `job` for `verdict` has begun; its members have been told.
void NoteHaltBegun(Turn& turn, Job& job, const Verdict& verdict);
// Every member that is left has halted.
void NoteAllHalted(Turn& turn, Job& job);
// The next generation is durable and its members have been told.
void NoteAssigned(Turn& turn, Job& job);
// They have prepared and begin.
void NoteStarted(Turn& turn, Job& job);
// A step was committed, beyond those known before.
void NoteStep(Turn& turn, Job& job);
// The job has ended, so what is open is over.
void NoteEnded(Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_INCIDENT_H_
