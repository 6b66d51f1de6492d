// Quarantine: hosts whose workers cause most of the incidents are left out for
// a while.
//
// Counted are losses that a host may be to blame for: a broken stream, a lease
// that ran out, no progress, an unanswered halt; one for each generation and
// host, since a host that goes down takes all its workers with it. A quarantine
// is journaled and outlives the coordinator; the count does not.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_

#include <deque>
#include <string>

#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if `kind`, as a verdict's first evidence, counts against the
// host.
[[nodiscard]] bool CountsAgainstHost(v1::EvidenceKind kind);

// Adds a fault at `now`, and forgets those from before the window. Returns
// whether it is the first of its generation and host.
bool AddHostFault(std::deque<HostFault>& faults, HostFault fault,
                  absl::Duration window);

// Why the host is to be quarantined, "3 of 4 incidents within 10m": it caused
// at least `quarantine_faults` of `faults`, and half of all. Empty if it is
// not.
[[nodiscard]] std::string QuarantineReason(const std::deque<HostFault>& faults,
                                           std::string_view host_key,
                                           const Config& config);

// `gone`, a member of `job`, was lost with `verdict`. Quarantines its host if
// that is due, leaves the job workers enough for its min, and there are other
// hosts.
void NoteHostFault(Turn& turn, const Job& job, const Worker& gone,
                   const v1::Verdict& verdict);

// Quarantines that are over end, and their workers may be taken again.
void OnQuarantineCheck(Turn& turn);

// Starts the clocks of quarantines that are known from the journal. Those that
// are over are dropped without a word: each start of a coordinator finds them
// there again.
void BeginQuarantines(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_
