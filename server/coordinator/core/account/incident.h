// Incidents: the cost of each interruption of a job, by phase.
//
// The parts of the core report the turning points of a recovery; these
// functions keep the job's record of it (Job::incidents). An incident is open
// from the halt to the first step committed after it; a further halt or loss
// before that belongs to it, as evidence and in its cost. Growth is an
// interruption too, but a wanted one. A recovery that began before the
// coordinator restarted has no incident, since nobody saw its cost.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_INCIDENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_INCIDENT_H_

#include <string>
#include <string_view>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// The incident that `job` is recovering from, or null.
[[nodiscard]] v1::Incident* OpenIncident(Job& job);
[[nodiscard]] const v1::Incident* OpenIncident(const Job& job);

// `member` is lost on this evidence; `gone` is its worker's last state. Keeps
// its last sign of life: when it was last heard or, if it was heard but made no
// progress, when progress ended.
void NoteMemberGone(const Turn& turn, Member& member, const Worker& gone,
                    const v1::Evidence& evidence);
// A halt of `job` for `verdict` has begun; its members have been told. A halt
// that cancels the job is no incident.
void NoteHaltBegun(Turn& turn, Job& job, const v1::Verdict& verdict);
// A further member was lost, or failed, while the job recovers.
void NoteFurtherFault(Turn& turn, Job& job, const v1::Verdict& verdict);
// A further member of `job`, which is halting or waiting, is gone: does the
// same, adds `verdict` to the job's unless the job is being cancelled, and
// journals it.
void NoteFurtherLoss(Turn& turn, Job& job, v1::Verdict verdict);
// A worker that was to join failed before it was a member: an incident that
// interrupted nobody.
void NoteFailedRehearsal(Turn& turn, Job& job, const v1::Verdict& verdict);
// Every member that is left has halted.
void NoteAllHalted(Turn& turn, Job& job);
// The next generation is durable and its members have been told. If it resumes
// from before the last committed step, it repeats the steps between.
void NoteAssigned(Turn& turn, Job& job);
// They have prepared and begin.
void NoteStarted(Turn& turn, Job& job);
// A step was committed, beyond those known before.
void NoteStep(Turn& turn, Job& job);
// The job is about to end, or has no members any more: an open incident is over.
void NoteEnded(Turn& turn, Job& job);

// The supervisor of `worker` saw how a process of it ended. Adds that to the
// newest incident and to the verdict of each job that blame this process, and
// emits worker.process_ended. Idempotent.
void NoteProcessEnd(Turn& turn, std::string_view worker,
                    const v1::ProcessEnd& process_end);

// "process 123 was ended by signal 9 (Killed)", "process 123 ended with exit
// code 138".
[[nodiscard]] std::string ToText(const v1::ProcessEnd& process_end);
// "detect 120 ms, halt 3 ms, assign 4 ms, connect 50 ms, first step 80 ms";
// unknown parts are left out.
[[nodiscard]] std::string ToText(const v1::RecoveryCost& cost);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_INCIDENT_H_
