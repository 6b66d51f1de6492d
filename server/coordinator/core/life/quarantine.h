// Quarantine: hosts whose workers cause most of a job's incidents, or fail by
// their own fault (own_failure.h), are left out for a while: by that job, and by
// all once it happened to two.
//
// It counts losses that a host may be to blame for: a broken stream, a lease
// that ran out, no progress, an unanswered halt, a message that cannot be; one per
// generation and host, since a host that goes down takes all its workers with it. A quarantine is
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

// Why `job_id` is to leave the host out, "3 of 4 incidents within 10m": it
// caused at least `quarantine_faults` of that job's `faults`, and half of all.
// Empty if it is not.
[[nodiscard]] std::string QuarantineReason(const std::deque<HostFault>& faults,
                                           std::string_view job_id,
                                           std::string_view host_key,
                                           const Config& config);

// `gone`, a member of `job`, was lost with `verdict`. The job leaves its host
// out if that is due, leaves it workers enough for its min, and there are other
// hosts.
void NoteHostFault(Turn& turn, const Job& job, const Worker& gone,
                   const v1::Verdict& verdict);

// The reason why a job leaves a host out, as HostQuarantine has it.
struct Blame {
  std::string reason;
  int exit_code = 0;
  bool is_unfit = false;
};

// `job` leaves the host of `worker` out from now on; so do all jobs if another
// one did lately, and this one goes well elsewhere.
void LeaveOutHost(Turn& turn, const Job& job, const Worker& worker,
                  Blame blame);

// Returns true if `job` leaves that host out because a worker failed there by its
// own fault, with `exit_code`; 0: with any.
[[nodiscard]] bool HasFailedOn(const State& state, const Job& job,
                               std::string_view host_key, int exit_code = 0);

// Returns true if the job has been prepared by all, or by a member of that role on
// a host other than `host_key` where none has failed. Ranks of one host show
// nothing for each other, since they do not all do the same; neither does a
// parameter server, which is ready without a worker's data and plan.
[[nodiscard]] bool GoesWellElsewhere(const State& state, const Job& job,
                                     v1::Role role, std::string_view host_key);

// `job_id` has FAILED: what its workers failed of says nothing of their hosts.
void ForgetFailures(State& state, std::string_view job_id);

// Quarantines that are over end, and their workers may be taken again.
void OnQuarantineCheck(Turn& turn);

// Starts the clocks of quarantines known from the journal. Expired ones are
// dropped silently: every restart of a coordinator finds them there again.
void BeginQuarantines(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_QUARANTINE_H_
