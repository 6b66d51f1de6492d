// A hello that is accepted: joining the pool, or attaching again to it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ATTACH_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ATTACH_H_

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Adds the worker to the pool. Nobody has its name.
void Join(Turn& turn, const HelloReceived& hello);

// Binds the worker of that name and incarnation to a new session, and sends it
// what it has missed:
//   generation of the hello   the job is   what it is sent
//   the job's                 PREPARING    nothing: it prepares again
//                             RUNNING      the start, unless it has begun
//                             STOPPING     the stop
//                             HALTING      the halt
//                             GATHERING    nothing: it has halted
//   an older one              PREPARING    the assignment
//                             HALTING      the halt of that generation
//                             GATHERING    nothing: it has halted
//                             (recovered)  the halt: the last record was never
//                                          acted upon
//                             otherwise    it is evicted
//   0                         PREPARING    the assignment, if it needs no state
//                             otherwise    nothing; it holds nothing, and the
//                                          job is halted for that
// A worker without a job that thinks it has one is released.
void AttachAgain(Turn& turn, const HelloReceived& hello);

// Returns the worker of `identity`, a member of `job`, as it is until it
// attaches.
[[nodiscard]] Worker DetachedWorker(const MemberIdentity& identity,
                                    const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_ATTACH_H_
