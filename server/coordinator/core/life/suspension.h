// Suspension: a job gives all its workers back between two steps, and goes on later
// from exactly that step, on any workers.
//
// Somebody asks for it (job_change.h), or a job with a higher priority lacks workers
// (gifts.h), or it cannot do without members whose drain is due (cordon.h). Members are
// let go then (let_go.h), all of them: they pause, and as nobody is to take over, write a
// checkpoint (hand_over.h), if their step is in none yet. Once they are released, the job
// is queued again. One that somebody has suspended waits there until it is resumed; any
// other keeps its place, and goes on as soon as there are workers.
//
// Workers with clocks of their own may be apart, so that the checkpoint of the step
// lacks updates: the job trains on for a while then, until it gets to another step. If
// it cannot, or has done so once, it is suspended with the checkpoint that it has, and
// says what is lost (job.steps_lost).
//
// A job of commands that may begin anew (ExternalProgram.requeue) is suspended in the
// same way, but that its commands are asked to end, and begin anew later.
//
// A job is not suspended if it has made steps and keeps no checkpoints, or while a
// checkpoint cannot be written; nor are benchmarks that have begun, and commands that
// may not begin anew.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SUSPENSION_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SUSPENSION_H_

#include <string>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `job` gives way and has no members any more.
[[nodiscard]] bool IsEmptied(const Job& job);

// "suspended by alice: too warm", "suspended after step 40; waits for the jobs before
// it": of a job that is queued.
[[nodiscard]] std::string QueuedText(const Job& job);
// "suspended after step 40; ", "its commands were stopped; "; empty if that is not so.
[[nodiscard]] std::string SuspendedText(const Job& job);

// It has not been the first that lacks workers yet.
void WaitAnew(Job& job);

// A job that has no members returns to its place in the queue.
void ReturnToQueue(Turn& turn, Job& job);

// Queues `job`, which is emptied, again.
void Suspend(Turn& turn, Job& job);

// As a journal tells of it.
void ApplySuspension(Job& job, const JobSuspendedRecord& record);

// Members of `job`, which gives way, were to write a checkpoint, and ended without
// one: it trains on, and tries again later.
void NoteUnsaved(Turn& turn, Job& job, int64_t step);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SUSPENSION_H_
