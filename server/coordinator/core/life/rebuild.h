// Rebuilding a job whose newest generation the journal does not know: it is
// gone, or an older copy. The members know, and train on; each tells of it in
// its hello (HeldJob).
//
//   first report -> ranks report -> (job durable) -> (generation durable) -> job
//
// The job is taken over once every rank has reported, or who has by then when
// Config::reattach_budget is over; the other ranks are lost. Until then no
// other job begins, and what members say is kept. Nothing is decided before the
// records are durable: while the journal fails, it all waits.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_

#include <optional>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `hello` of `worker`, which is in the pool, reports a
// generation that is to be taken over: the worker keeps it then, and
// ContinueRebuilding is to follow. False if the job is known in that
// generation, is another by the same id, has ended or is at work (its members
// had their time to attach again), if another job has members, or if newer
// generations are known.
[[nodiscard]] bool TakeReport(Turn& turn, Worker& worker,
                              const HelloReceived& hello);

// Goes on as far as reports, time and the journal allow. May be called at any
// time.
void ContinueRebuilding(Turn& turn);

// The time to report is over.
void OnRebuildDeadline(Turn& turn);

// Returns true if the record, which is durable, is that of the generation to be
// taken over, and then takes it over, unless its job has ended meanwhile.
[[nodiscard]] bool OnRebuiltDurable(Turn& turn,
                                    const GenerationFormedRecord& record);

// Returns true if the record, which is not durable, is one of the rebuilding;
// it is made again once the journal works.
[[nodiscard]] bool OnRebuiltNotDurable(Turn& turn, const JournalRecord& record);

// Keeps what `worker` says, if it can only be understood once its job is taken
// over.
[[nodiscard]] bool KeepForLater(Turn& turn, const Worker& worker,
                                const EventBody& body);

// The next of what was kept, in order, if the job has been taken over (or was
// given up).
[[nodiscard]] std::optional<EventBody> TakeKept(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_REBUILD_H_
