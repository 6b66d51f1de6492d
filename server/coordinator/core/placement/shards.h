// Shards: the parts of a job's parameters that its members hold, and the
// members that hold them next.
//
// The state of a job with shards is with those who hold these, not with the
// workers. Copies of a shard differ by one step at most, since a worker pushes
// the step after next only once all of the next was answered, and an answer
// waits for the copy; and a holder can go back by one step. So the job goes on
// after the least step of all copies, and no committed step is lost as long as
// every shard has one: a step is committed once every worker was answered.
// Where each worker has its own clock (Sharding::is_lockstep is false), nothing
// goes back but the clocks. A member that gave its copy away when the
// generation began, and has no part in the shard since, still has it as of
// then; that counts if nobody else has a copy. Pure functions of their
// arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARDS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/parameter_server/shard_placement.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// The step that `job`, which has shards and whose members have halted, can go
// on after; nullopt if some shard has no copy. Where steps are common to all, a
// copy that lacks `applied_step` is none.
[[nodiscard]] std::optional<int64_t> CommonShardStep(const Job& job,
                                                     int64_t applied_step);

// By shard: the ranks of the halted members of `job` that hold it as of
// `resume_step`, ascending.
[[nodiscard]] std::vector<std::set<int>> CopyHolders(const Job& job,
                                                     int64_t resume_step);

// Returns the holders of the shards of `job` in the next generation, whose
// table is `members`; the job's own members are still those of its last one.
// Members whose workers are DRAINING give their shards away and get none, if
// there are others. `resume_step`: what CommonShardStep said; nullopt: all
// shards are made anew. Null if the job has no shards.
[[nodiscard]] std::shared_ptr<const std::vector<ShardPlacement>> PlaceShardsOf(
    const State& state, const Job& job,
    const std::vector<MemberIdentity>& members,
    std::optional<int64_t> resume_step);

// Puts what `member` of `job` says that it `held` as it halted in `generation`
// into its answer. What it was to hold in an older one is not known any more.
void KeepHeldShards(const Job& job, const Member& member, int64_t generation,
                    const std::vector<HeldShard>& held, HaltedAnswer& answer);

// Those of `record`, of a generation of `job`, for Job::placements; null if it
// does not know them, or they do not fit.
[[nodiscard]] std::shared_ptr<const std::vector<ShardPlacement>> PlacementsOf(
    const Job& job, const GenerationFormedRecord& record);

// "all shards as of step 40 are held by parameter server s (rank 3), ...".
[[nodiscard]] std::string ShardHoldersText(const Job& job, int64_t step);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARDS_H_
