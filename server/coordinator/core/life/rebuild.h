// Rebuilding a job whose newest generation the journal does not know, because
// the journal was lost or is an older copy. The members know it and keep
// training; each reports it in its hello (HeldJob).
//
//   first report -> ranks report -> (job durable) -> (generation durable) -> job
//
// The job is taken over once every rank has reported, or when
// Config::reattach_budget is over, with the ranks that have reported by then;
// the others are lost. Until then no other job begins, and members' messages
// are kept. Several jobs may be rebuilt at the same time. Nothing is decided before the records are durable: while the
// journal fails, everything waits.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_

#include <optional>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `worker`, which is known as a member of a job from the journal,
// reports a generation of another job that is to be taken over: it is no member of
// the first any more.
[[nodiscard]] bool ReportsAnotherJob(State& state, const Worker& worker,
                                     const HelloReceived& hello);

// Returns true if `hello` of `worker`, which is in the pool, reports a
// generation that is to be taken over: the worker keeps it then, and
// ContinueRebuilding is to follow. Returns false if the job is known in that
// generation or a newer one, is another by the same id, has ended or is running
// (its members had their time to attach again), or if the journal knew later
// generations when the coordinator began.
[[nodiscard]] bool TakeReport(Turn& turn, Worker& worker,
                              const HelloReceived& hello);

// Continues as far as reports, time and the journal allow. May be called at any
// time.
void ContinueRebuilding(Turn& turn);

// Where the time to report is over, goes on with those who have.
void OnRebuildDeadlines(Turn& turn);

// If the record, which is durable, is that of the generation to be taken over,
// takes it over, unless its job has ended meanwhile, and returns true.
[[nodiscard]] bool OnRebuiltDurable(Turn& turn,
                                    const GenerationFormedRecord& record);

// Returns true if the record, which is not durable, belongs to the rebuilding;
// it is made again once the journal works.
[[nodiscard]] bool OnRebuiltNotDurable(Turn& turn, const JournalRecord& record);

// Keeps the event of `worker` if it can only be understood once its job has
// been taken over.
[[nodiscard]] bool KeepForLater(Turn& turn, const Worker& worker,
                                const EventBody& body);

// Returns the next event that was kept for a job which has been taken over since,
// in order.
[[nodiscard]] std::optional<EventBody> TakeKept(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_
