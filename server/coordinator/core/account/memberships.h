// The workers that a job has had, and from when to when.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_MEMBERSHIPS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_MEMBERSHIPS_H_

#include "absl/time/time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// `job` has the members of its generation from `time` on. A generation of those that it
// had before is part of the same membership.
void NoteMembers(Job& job, absl::Time time);

// `job` has none from `time` on.
void NoteNoMembers(Job& job, absl::Time time);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_MEMBERSHIPS_H_
