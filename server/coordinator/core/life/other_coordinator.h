// Workers whose generation another coordinator formed: they are sent away, to
// find their own again, and nothing is decided about them or their job.
//
//   volume copied -> the first forms generation 8 -> a second one on the copy,
//   whose journal ends with generation 7, meets a member of 8
//
// The second one knows then that its journal is an older copy. It forms no
// generation, gives nobody up and ends nothing, until an operator says which of
// the two is right: Config::takes_over, or its end. A coordinator that has formed
// generations itself goes on with the members that it has.
//
// A copy that has all generations so far cannot be told from the original: who
// works on it is like a coordinator that was started again. Workers go back to
// the address at which they last had a session, if somebody answers there.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OTHER_COORDINATOR_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OTHER_COORDINATOR_H_

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Closes the session and returns true if `hello` names a generation that is not
// this coordinator's.
[[nodiscard]] bool SendAway(Turn& turn, const HelloReceived& hello);

// The journal is an older copy: its job's members have all the time to attach.
void HoldDeadlines(const Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OTHER_COORDINATOR_H_
