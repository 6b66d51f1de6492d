// Rendezvous decides which workers a job takes, when, and in which order of
// ranks.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_

#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// Returns true if a is before b when digits count as numbers: w2 < w10. A
// strict order: names that differ are never equal.
[[nodiscard]] bool NaturalLess(std::string_view a, std::string_view b);

// The idle workers that a job takes: those on hosts that are not quarantined for
// it, without those that still prepare to join it (rehearsal.h) or with them; or
// all on hosts that are not unfit for it.
enum class Hosts { kReady, kSound, kAll };

// Returns true if it has a session and no job, and its trainer has halted.
[[nodiscard]] bool IsIdle(const Worker& worker);

// Returns a member of `job`, or an idle worker that joined earlier, whose link
// with `worker` was broken lately in `job` (LinkFaults); null if there is none.
[[nodiscard]] const Worker* BadLinkOf(const State& state, const Job& job,
                                      const Worker& worker);

// Returns true if `worker`, which is idle, prepares to join another job than
// `job`, or keeps the steps of another.
[[nodiscard]] bool IsOfAnother(const Job& job, const Worker& worker);

// The functions below look at workers of one role: those that train, or
// parameter servers; and of these at the ones that jobs before `job` leave. An
// idle worker goes to the jobs in this order, within each in that of their
// submission:
//   jobs whose members have halted, as many as they lack to train again
//   jobs that gather and have enough, up to as many as they take
//   a job for which workers are kept (Job::is_reserving), as many as it needs
//   jobs that train and may grow
[[nodiscard]] bool IsBefore(const Job& a, const Job& b);

// The first of kReady, kSound and kAll that has `needed` idle workers; else
// kAll.
[[nodiscard]] Hosts HostsFor(const State& state, const Job& job, int needed,
                             v1::Role role = v1::ROLE_WORKER);

// Returns how many workers `job` could take: the idle ones, except those whose
// link with a member of it is bad; of two idle workers with a bad link between
// them, only the one that joined first counts (BadLinkOf).
[[nodiscard]] int IdleCount(const State& state, const Job& job, Hosts hosts,
                            v1::Role role = v1::ROLE_WORKER);

// Returns those workers in the order of their future ranks: hosts in the order
// of their first idle worker's join, workers by name within a host.
[[nodiscard]] std::vector<const Worker*> PackedIdleWorkers(
    const State& state, const Job& job, Hosts hosts,
    v1::Role role = v1::ROLE_WORKER);

// Returns when the last of them joined. Workers that have left again do not
// count: one that starts and dies over and over would keep a job from
// beginning.
[[nodiscard]] MonotonicTime LastIdleJoin(const State& state, const Job& job,
                                         Hosts hosts,
                                         v1::Role role = v1::ROLE_WORKER);

// Returns true if `job`, which has not begun, could begin now with the fewest
// workers and all parameter servers that it needs.
[[nodiscard]] bool CanBegin(const State& state, const Job& job);

// Returns true if the pool would be large enough for that if no other job had
// workers.
[[nodiscard]] bool CouldBegin(const State& state, const Job& job);

// Returns when `job` (GATHERING) may begin with `idle_count` workers: at once
// (`now`) with max; with min, `settle` after the last join or the beginning of
// the gathering, whichever is later; otherwise InfiniteFuture.
[[nodiscard]] MonotonicTime GangTime(const Job& job, int idle_count,
                                     MonotonicTime last_join,
                                     MonotonicTime now);

// Returns the order of ranks of a generation with `members`, who have the ranks
// of the previous one, counted from `first_rank`, and `joining`, packed by
// host. If the joining fill the gaps between the members so that the ranks of
// each host follow one another, every member keeps its rank. Otherwise the
// members keep their order: hosts are in the order of their lowest member's
// rank, then those of the joining; within a host members come first.
[[nodiscard]] std::vector<const Worker*> OrderRanks(
    const std::vector<const Worker*>& members,
    const std::vector<const Worker*>& joining, int first_rank = 0);

// Returns the worker's identity as members see it; the caller sets its ranks.
[[nodiscard]] MemberIdentity IdentityOf(const Worker& worker);

// Returns the member table for `workers` in this order of ranks; a local rank
// counts the earlier ranks of the same role on the same host.
[[nodiscard]] std::vector<MemberIdentity> AssignRanks(
    const std::vector<const Worker*>& workers);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_RENDEZVOUS_H_
