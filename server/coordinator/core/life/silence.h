// Silence that most members share, or that is the coordinator's own.
//
// When most members of the active job fall silent at the same moment, on more
// than one host or all of them, the coordinator's own connection is the likelier
// cause than so many deaths. Their leases then run on: for as long as nobody at
// all is heard, and for Config::reattach_budget from when somebody is. The same
// holds of streams that end meanwhile, or after the coordinator itself was held
// up: the member is DETACHED, as after a restart of the coordinator, and has as
// long to attach again. The job trains on all the while, and is not halted if
// everybody comes back. The last one that is waited for is lost at once if a peer
// tells that its process has ended (LoseEnded).
//
// A stream that ends after a silence of its own, while the steps of the
// generation prove that its worker lived, was cut between the two, and ended by
// keep-alive. (The stream of a process that is killed ends between two beats.)
// The member is DETACHED, and keeps its place for as long as steps prove that
// it lives and no peer reports its link with it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SILENCE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SILENCE_H_

#include "absl/time/time.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// When `worker` last lived, as far as is known: when it was last heard, or when
// the steps of its generation prove that it took part.
[[nodiscard]] MonotonicTime LastSign(const State& state, const Worker& worker);

// Returns true if most members of the jobs that train are silent now, for half a lease
// or longer: nothing is to be concluded from what they do not do.
[[nodiscard]] bool AreMostSilent(const Turn& turn);

// Some lease has run out at `turn.now`. Returns true if nobody is to be given up
// for that yet; the leases are then looked at again after a beat interval.
[[nodiscard]] bool IsCommonSilence(Turn& turn);

// The coordinator was held up for `delay`.
void NoteStall(Turn& turn, absl::Duration delay);

// Returns true if the stream of `worker` has ended in such a silence or lately
// after it; its loss is not its own then, and it is DETACHED.
[[nodiscard]] bool DetachInSilence(Turn& turn, Worker& worker);

// Returns true if only the line between `worker`, whose stream has ended, and
// the coordinator is cut; it is DETACHED then.
[[nodiscard]] bool DetachCutOff(Turn& turn, Worker& worker);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_SILENCE_H_
