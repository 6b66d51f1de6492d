// Handing over: a holder of shards that is asked to leave gives them to other
// members first.
//
// The members are asked to pause (growth.h). In the next generation the leaver
// is given no shards but stays a member if others need its copies, which they
// take as the generation begins. Once that generation has made a step, the
// members pause again; then nobody needs its copies, and it is released. That
// makes two pauses, and no step is lost. It is released at the first pause if
// others already have the copies, or if nobody could take them; in the latter
// case the job goes back to its last checkpoint. The same holds if copies would
// be of no use: before the first step, and if some shard was lost with another
// holder. The leaver decides how long it waits: when its patience ends, it
// leaves like any other worker.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Returns true if any member of `job`, not lost, is to leave and may hold
// shards.
[[nodiscard]] bool HasLeavingHolder(const State& state, const Job& job);

// Returns the number of members of that role that are neither lost nor leaving.
[[nodiscard]] int StayingCount(const State& state, const Job& job,
                               v1::Role role);

// Returns the hosts from which the next generation of `job` takes idle members
// of that role. Leavers do not count: if too few would stay, workers of
// quarantined hosts join while the shards can still be handed over.
[[nodiscard]] Hosts HostsToJoinFrom(const State& state, const Job& job,
                                    v1::Role role);

// "parameter server s leaves", "workers a, b leave"; empty if none leaves.
[[nodiscard]] std::string LeaveText(const State& state, const Job& job);

// Releases from `job`, whose members have halted, the leavers that the next
// generation does not need, or that nobody can take over from. `shard_step` is
// the step of the copies that the job resumes with, if any; it is cleared if
// those copies are lost with a leaver. `is_rollback`: there is no such step
// although steps were made. Returns true if it released any.
bool DismissLeavers(Turn& turn, Job& job, std::optional<int64_t> shard_step,
                    bool is_rollback);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_
