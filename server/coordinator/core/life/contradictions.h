// Contradictions: members that say of their steps what cannot be.
//
// Once all members have halted, and those who went at the same time have had their
// time to come back (absence.h), the step that the job goes on after follows from
// what each of them says that it applied and holds; a false word would let it go on
// from where nobody is, or lose steps that others hold. So those whose words
// contradict the others' (faults/step_claims.h) are evicted first, and what they
// have reported does not count. Of two members that contradict each other nobody
// can tell which is wrong: both give up what they hold and are idle workers, which
// may join again as newcomers, and the job goes on from what the others hold. If
// these hold nothing, it goes back to its checkpoint; see reform.h.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CONTRADICTIONS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CONTRADICTIONS_H_

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Acts on contradictions between members of `job`, which are halted or lost; the
// steps of those that are left fit together then. Returns true if that went on to
// re-form the job, or to end it: the caller is done. A job whose parameters are in
// shards is left as it is: a holder may be a step ahead or behind.
[[nodiscard]] bool SettleContradictions(Turn& turn, Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_CONTRADICTIONS_H_
