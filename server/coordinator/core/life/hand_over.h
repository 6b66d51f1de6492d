// Handing over: who holds shards of a job and is asked to leave gives them to
// others first.
//
// The members are asked to pause (growth.h). In the next generation who leaves
// is given no shards, but is still a member if others need its copies: they
// take them as it begins. Once it has made a step, the members pause again;
// then nobody needs its copies, and it is released. Two pauses, and no step
// lost. It is released at the first one where others have the copies, or where
// nobody is there who could take them; then the job goes back to its last
// checkpoint. So it is where copies would be no use: before the first step, and
// where some shard is lost with another holder. The leaver itself says how long
// it waits: when its patience ends, it leaves like anybody else.
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

// Members of that role that are not lost, without those.
[[nodiscard]] int StayingCount(const State& state, const Job& job,
                               v1::Role role);

// Returns the hosts from which the next generation of `job` takes idle members
// of that role. A leaver does not count: if too few would stay, workers of
// quarantined hosts join while its shards can still be handed over.
[[nodiscard]] Hosts HostsToJoinFrom(const State& state, const Job& job,
                                    v1::Role role);

// "parameter server s leaves", "workers a, b leave"; empty if nobody does.
[[nodiscard]] std::string LeaveText(const State& state, const Job& job);

// Takes those who leave and whom the next generation can do without, or has
// nobody to take over from, out of `job`, whose members have halted, and
// releases them. `shard_step`: the step of the copies that it goes on with, if
// any; where they are needed all the same, there is none afterwards.
// `is_rollback`: there is none, though steps were made. Returns whether it
// released any.
bool DismissLeavers(Turn& turn, Job& job, std::optional<int64_t> shard_step,
                    bool is_rollback);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_HAND_OVER_H_
