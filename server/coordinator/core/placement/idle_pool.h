// The idle workers that a job may take, and which of them other jobs are to have.
//
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_IDLE_POOL_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_IDLE_POOL_H_

#include <set>
#include <string>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// The idle workers that a job takes: those on hosts that are not quarantined for
// it, without those that still prepare to join it (rehearsal.h) or with them; or
// all on hosts that are not unfit for it.
enum class Hosts { kReady, kSound, kAll };

// Returns true if `worker` has the labels that `job` asks for, may use as much memory
// as it needs, and runs commands if the job does. Any parameter server is fit.
[[nodiscard]] bool IsFitFor(const Job& job, const Worker& worker);

// Returns true if `job` may take `worker`: it does not leave, is not cordoned, and is
// fit, or has not attached yet, so that nobody knows.
[[nodiscard]] bool IsOnOffer(const State& state, const Job& job,
                             const Worker& worker);

// " with gpu=h100, zone=a, 8.00GiB of memory", " on a host each", " that run commands":
// the workers that `job` may take; empty: any.
[[nodiscard]] std::string FitText(const Job& job);
// "2 workers with gpu=h100 and 1 parameter server": what `job` needs to begin.
[[nodiscard]] std::string NeededText(const Job& job);

// Returns true if some idle worker is fit for both jobs, or both take any; or if both are
// in one queue that has a limit.
[[nodiscard]] bool AreRivals(const State& state, const Job& a, const Job& b);

// Returns true if it has a session and no job, and its trainer has halted.
[[nodiscard]] bool IsIdle(const Worker& worker);

// Returns a member of `job`, or an idle worker that joined earlier, whose link
// with `worker` was broken lately in `job` (LinkFaults); null if there is none.
[[nodiscard]] const Worker* BadLinkOf(const State& state, const Job& job,
                                      const Worker& worker);

// Returns true if `worker`, which is idle, prepares to join another job than
// `job`, or keeps the steps of another.
[[nodiscard]] bool IsOfAnother(const Job& job, const Worker& worker);

// Returns true if `job` has not been assigned anything yet, or waits to go on with other
// members; and nobody has suspended it.
[[nodiscard]] bool WaitsToBegin(const Job& job);

// Returns true if `job`, once it has begun, can be suspended: without losing a step, or
// as it lets its commands begin anew.
[[nodiscard]] bool IsPreemptible(const Job& job);

// Returns the job for which idle workers are kept, as it is overdue or served, or null.
[[nodiscard]] const Job* KeptFor(const State& state);

// Returns as many workers as `job` takes if it begins now, as far as its queue has room
// for them; while idle workers are kept for another one, of no lower priority, those that
// it needs.
[[nodiscard]] int MostToBegin(const State& state, const Job& job);

// An idle worker goes to the jobs in the order of their priorities, of the same first to
// those within the quotas of their queues (quotas.h). Among those that are alike in that
// it goes in this order, within each by the turns of queues and then in that of their
// submission:
//   jobs whose members have halted, as many as they lack to train again
//   jobs that gather and have enough workers and parameter servers, up to as
//   many as they take, or, while workers are kept for another, as many as they
//   need
//   a job for which workers are kept, as many as it needs; until it is served,
//   preemptible jobs that begin come before it, and so do jobs of a lower priority
//   whose members have halted
//   jobs that train and may grow
[[nodiscard]] bool IsBefore(const Job& a, const Job& b);

// The idle workers of one role, those that train or parameter servers, that jobs
// before `job` leave for it; one of each host if it is spread (HostSpread). Of two
// idle workers with a bad link between them only
// the one that joined first counts, and none whose link with a member of the job is
// bad (BadLinkOf). Lasts as long as the state stays as it is.
class IdlePool {
 public:
  IdlePool(const State& state, const Job& job, v1::Role role = v1::ROLE_WORKER);

  // The first of kReady, kSound and kAll that has `needed` idle workers; else
  // kAll.
  [[nodiscard]] Hosts HostsFor(int needed) const;
  [[nodiscard]] int Count(Hosts hosts) const;
  // Returns those workers in the order of their future ranks: hosts in the order
  // of their first idle worker's join, workers by name within a host.
  [[nodiscard]] std::vector<const Worker*> Packed(Hosts hosts) const;
  // Returns when the last of them joined. Workers that have left again do not
  // count: one that starts and dies over and over would keep a job from
  // beginning.
  [[nodiscard]] MonotonicTime LastJoin(Hosts hosts) const;

 private:
  // Workers that jobs before are to have.
  using Taken = std::set<const Worker*>;

  IdlePool(const State& state, const Job& job, v1::Role role, Taken taken);

  [[nodiscard]] bool Has(const Worker& worker, Hosts hosts) const;
  // Returns true if no two of them may be on one host.
  [[nodiscard]] bool IsSpread() const;
  // Returns true if the job could begin, as far as this role goes.
  [[nodiscard]] bool HasEnough() const;
  // Returns those of them that are the job's own, and not for `viewer`, which
  // comes later. `has_enough`: the job could begin.
  [[nodiscard]] std::vector<const Worker*> ClaimsBefore(const Job& viewer,
                                                        bool has_enough) const;
  [[nodiscard]] int CountClaimed(const Job& viewer, bool has_enough) const;
  void Take(const std::vector<const Worker*>& workers);

  const State& state_;
  const Job& job_;
  v1::Role role_;
  Taken taken_;
};

// Returns true if `job`, which has not begun, could begin now with the fewest
// workers and all parameter servers that it needs, and its queue has room for them.
[[nodiscard]] bool CanBegin(const State& state, const Job& job);

// Returns true if the pool would be large enough for that if no other job had
// workers.
[[nodiscard]] bool CouldBegin(const State& state, const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_IDLE_POOL_H_
