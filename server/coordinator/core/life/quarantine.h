// Quarantine leaves out, for a while, hosts whose workers cause most of the
// incidents.
//
// It counts losses that a host may be to blame for: a broken stream, a lease
// that ran out, no progress, an unanswered halt; one per generation and host,
// since a host that goes down takes all its workers with it. A quarantine is
// journaled and outlives the coordinator; the count does not.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_

#include <deque>
#include <string>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `kind`, as a verdict's first evidence, counts against the
// host.
[[nodiscard]] bool CountsAgainstHost(v1::EvidenceKind kind);

// Adds a fault at `now`, and forgets those from before the window. Returns true
// if it is the first of its generation and host.
bool AddHostFault(std::deque<HostFault>& faults, HostFault fault,
                  absl::Duration window);

// Returns the reason to quarantine the host, "3 of 4 incidents within 10m", if
// it caused at least `quarantine_faults` of `faults` and at least half of all;
// empty otherwise.
[[nodiscard]] std::string QuarantineReason(const std::deque<HostFault>& faults,
                                           std::string_view host_key,
                                           const Config& config);

// `gone`, a member of `job`, was lost with `verdict`. Quarantines its host if
// that is due, leaves the job workers enough for its min, and there are other
// hosts.
void NoteHostFault(Turn& turn, const Job& job, const Worker& gone,
                   const v1::Verdict& verdict);

// Ends quarantines that are over, so that jobs may take their workers again.
void OnQuarantineCheck(Turn& turn);

// Starts the clocks of quarantines known from the journal. Expired ones are
// dropped silently: every restart of a coordinator finds them there again.
void BeginQuarantines(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_
