// Shards: the parts of a job's parameters that its members hold, and the
// members that hold them next.
//
// The state of a job with shards is with their holders, not with the workers.
// Copies of a shard differ by one step at most, since a worker pushes the step
// after next only once all of the next was answered, and an answer waits for
// the copy; and a holder can go back by one step. So the job resumes from the
// least step of all copies, and no committed step is lost as long as every
// shard has a copy: a step is committed once every worker was answered. If each
// worker has its own clock (Sharding::is_lockstep is false), only the clocks go
// back. A member that no longer takes part in a shard keeps its copy as of the
// beginning of the generation until all holders have theirs; that copy counts if
// there is no other, but tells nothing of how far the generation got, so others
// who may hold more are waited for first (docs/decisions/0060). So a job that has
// every shard twice loses no step with one holder, also while others load. Pure functions of their arguments.
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

// Returns the step from which `job`, which has shards and whose members have
// halted, can resume; nullopt if some shard has no copy. If steps are common to
// all workers, a copy that lacks `applied_step` does not count.
[[nodiscard]] std::optional<int64_t> CommonShardStep(const Job& job,
                                                     int64_t applied_step);

// Returns, by shard, the ranks of the halted members of `job` that hold it as
// of `resume_step`, ascending.
[[nodiscard]] std::vector<std::set<int>> CopyHolders(const Job& job,
                                                     int64_t resume_step);

// Returns true if some shard can resume from there only with a copy that took
// no part in the generation (HaltedAnswer::given_shards), and none of those
// that were to hold it there can tell how far that has got.
[[nodiscard]] bool NeedsGivenCopies(const Job& job, int64_t resume_step);

// Returns the holders of the shards of `job` in the next generation, whose
// table is `members`; the job's own members are still those of its last one.
// Members whose workers leave give their shards away and get none, if
// there are others. `resume_step` is the result of CommonShardStep; nullopt:
// all shards are created anew. Null if the job has no shards.
[[nodiscard]] std::shared_ptr<const std::vector<ShardPlacement>> PlaceShardsOf(
    const State& state, const Job& job,
    const std::vector<MemberIdentity>& members,
    std::optional<int64_t> resume_step);

// Puts the shards that `member` of `job` says it `held` when it halted in
// `generation` into its answer. Its part in an older generation is no longer
// known.
void KeepHeldShards(const Job& job, const Member& member, int64_t generation,
                    const std::vector<HeldShard>& held, HaltedAnswer& answer);

// Returns the placements of `record`, of a generation of `job`, for
// Job::placements; null if it has none, or they do not fit.
[[nodiscard]] std::shared_ptr<const std::vector<ShardPlacement>> PlacementsOf(
    const Job& job, const GenerationFormedRecord& record);

// "all shards as of step 40 are held by parameter server s (rank 3), ...".
[[nodiscard]] std::string ShardHoldersText(const Job& job, int64_t step);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_PLACEMENT_SHARDS_H_
