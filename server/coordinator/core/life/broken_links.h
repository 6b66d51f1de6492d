// Broken links: the coordinator's answer when links between live members fail.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_BROKEN_LINKS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_BROKEN_LINKS_H_

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Reports need no further explanation once their links were probed (probing.h).
// Nor do connections that were closed, once everybody who could have closed them
// was heard since: all are alive, and the same members begin again at once. A
// process that ends is told of by its own stream.
void HastenSuspicions(const Turn& turn, Job& job);

// Returns true if all that is told of `job`'s links is that one member's were
// closed by it, or refused: as a process that ends leaves them. One that stops
// because of a link that nobody has told of yet leaves them so, too.
[[nodiscard]] bool TellOfAnEnd(const Job& job, const MemberIdentity& member);

// Nothing has explained the suspicions, so links are at fault. If some could not
// be made when they were probed, the fewest members that cover them are evicted.
// Else the same members begin again; if it happens again without a step in
// between, the fewest members that cover the broken links are evicted
// (LinkFaults): those that have failed twice, if all could be made.
// Connections that were only closed cost nobody its place, unless the same link
// is closed again and again and the job has members enough without one end, or
// connections are closed again and again and no step is made.
void OnSuspicionDeadline(Turn& turn, Job& job);

// An early probe (probing.h) is over: the fewest members go that cover the
// links that neither end could make, if the job has members enough without
// them.
void OnEarlyProbe(Turn& turn, Job& job);

// Two workers no longer need to be kept apart.
void OnLinkCheck(Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_BROKEN_LINKS_H_
