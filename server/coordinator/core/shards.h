// What the members of a job hold of its parameters, and who holds them next.
//
// The state of a job with shards is with those who hold these, not with the
// workers. Copies of a shard differ by one step at most, since a worker pushes
// the step after next only once all of the next was answered, and an answer
// waits for the copy; and a holder can go back by one step. So the job goes on
// after the least step of all copies, and no committed step is lost as long as
// every shard has one: a step is committed once every worker was answered.
// Where each worker has its own clock (Sharding::is_lockstep is false), nothing
// goes back but the clocks.
// Pure functions of their arguments.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_SHARDS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_SHARDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/parameter_server/shard_placement.h"
#include "server/coordinator/core/state.h"
#include "server/coordinator/core/types.h"

namespace ringmaster::coordinator {

// The step that `job`, which has shards and whose members have halted, can go on
// after; nullopt if some shard has no copy. Where steps are common to all, a copy
// that lacks `applied_step` is none.
[[nodiscard]] std::optional<int64_t> CommonShardStep(const Job& job,
                                                     int64_t applied_step);

// Who holds the shards of `job`, whose members are still those of its last
// generation, in the next one, whose table is `members`. `resume_step`: what
// CommonShardStep said; nullopt: all shards are made anew. Null if the job has
// no shards.
[[nodiscard]] std::shared_ptr<const std::vector<ShardPlacement>> PlaceShardsOf(
    const Job& job, const std::vector<MemberIdentity>& members,
    std::optional<int64_t> resume_step);

// "all shards as of step 40 are held by parameter server s (rank 3), ...".
[[nodiscard]] std::string ShardHoldersText(const Job& job, int64_t step);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_SHARDS_H_
