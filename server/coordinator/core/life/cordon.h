// Cordons: workers get no job, because somebody looks after them or their host.
//
// A cordon is of a name, which a worker or a host has. It outlives the coordinator
// and the worker's process, and is in force until it is lifted. No job takes an idle
// worker that is cordoned. A job that has one keeps it, unless the cordon drains:
// then the job lets it go between two steps, as one that leaves (let_go.h), once
// the job can do without it, because it has more than its min, or an idle worker
// takes the place. Until then the worker trains on. A benchmark and a job of
// commands, whose members cannot change, keep it to their end, the latter unless the
// cordon is due. The worker's process lives on, idle, and may be stopped by its operator.
//
// A cordon that drains may be due at some time. From then on jobs let its workers go
// even if they cannot do without them (let_go.h). It is a time on the operator's
// calendar: the record has it by the wall, a coordinator that restarts waits for what is
// left of it, or until idle workers are back, and one that was held up does not move it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CORDON_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CORDON_H_

#include <vector>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Answers with
//   NOT_FOUND/INVALID_REQUEST  no worker and no host has that name, or, to lift it,
//                              there is no such cordon
//   RESOURCE_EXHAUSTED         there are kMaxCordons
void OnCordon(Turn& turn, const CordonRequested& cordon);
void OnCordonDurable(Turn& turn, const CordonedRecord& record,
                     const std::vector<RequestToken>& waiting);

// Puts the cordon in force, or lifts it.
void ApplyCordon(State& state, const CordonedRecord& record);

// The time of some cordons has come: their jobs let the workers go that they could not
// do without.
void OnCordonsDue(Turn& turn);

// Tells of each draining cordon, once, that none of its workers has a job. After a
// restart, only of those of which BeginCordons finds that one has.
void NoteEmpty(Turn& turn);

// Those that a journal told of are in force, and due in what is left of their time, but
// not before idle workers had time to return. One whose time has come, and whose workers
// have no job, is due without a word.
void BeginCordons(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CORDON_H_
