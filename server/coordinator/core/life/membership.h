// The pool of workers: joining, attaching again, leaving, being lost.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MEMBERSHIP_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MEMBERSHIP_H_

#include <string>
#include <string_view>

#include "common/status/exit_code.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// A hello's effect depends on the worker that already has its name:
//   nobody                                     joins the pool; if it was given
//                                              up, with its steps (absence.h)
//   same incarnation, another resume key       is refused: it is no process of
//                                              that name
//   same incarnation                           attaches again; an older stream
//                                              of it is closed
//   same incarnation, but a later attempt      is closed: it was held up
//   was heard before
//   another, detached or its lease run out     supersedes it, joins
//   another, live                              is refused: WORKER_NAME_IN_USE
//   nobody, but its loss from the active job   is refused until it is:
//   is not durable yet                         JOURNAL_UNAVAILABLE
// A member that attaches again stays one if it is still in its generation, and
// is sent what it has missed.
void OnHello(Turn& turn, const HelloReceived& hello);

void OnStreamClosed(Turn& turn, Worker& worker, const StreamClosed& closed);
void OnLeaving(Turn& turn, Worker& worker, const LeavingReceived& leaving);

// Gives up a worker that was cut off (silence.h), because of `why`.
void LoseCutOff(Turn& turn, const std::string& name, std::string_view why);

// After a silence of the coordinator's own: gives up the only member of `job`
// that is still waited for, if the peers' reports are those of its end
// (broken_links.h). That is likely, and waiting costs more: everybody else is back.
// (After a restart of the coordinator nobody's connections tell.)
void LoseEnded(Turn& turn, Job& job);

// Removes workers that were silent for a lease, in the order of their names,
// unless most are (silence.h).
void ExpireLeases(Turn& turn);

// Removes members known from the journal that have not attached again.
void OnReattachDeadline(Turn& turn, Job& job);

// Removes the worker of that name, a member, from its job and the pool, and
// closes its session. It may come back as a newcomer. `what` it did, and the
// exit code that it maps to.
void Evict(Turn& turn, const std::string& name, v1::Evidence evidence,
           std::string_view what = "was evicted",
           ExitCode exit_code = ExitCode::kRetryElsewhere);

// The same for a worker whose message breaks the protocol, as described by
// `what`, also if it is no member. `worker` is gone afterwards.
void CloseForViolation(Turn& turn, const Worker& worker, std::string_view what);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_MEMBERSHIP_H_
