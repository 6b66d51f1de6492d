// The audit: a record in the journal of each change that somebody asked for.
//
// Internal to the core. State::audit has those that are durable, oldest first; the
// journal keeps as many (retention.h).
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_AUDIT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_AUDIT_H_

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Hands `entry`, whose time is filled in here, to the journal. Does nothing if
// nothing is known of the caller, who then is the coordinator itself.
void Audit(Turn& turn, AuditedRecord entry);

// The entry is durable.
void OnAudited(State& state, const AuditedRecord& entry);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_AUDIT_H_
