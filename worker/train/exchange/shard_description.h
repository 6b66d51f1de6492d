// The description of a shard that a server needs, from a job's plan. Pure.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_DESCRIPTION_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_DESCRIPTION_H_

#include <span>

#include "common/parameter_server/shard_layout.h"
#include "common/plan/plan.h"

namespace ringmaster {

// `stretches` tile the arenas of `plan`.
[[nodiscard]] ShardDescription DescribeShard(
    const Shard& shard, const Plan& plan,
    std::span<const UpdateStretch> stretches);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_SHARD_DESCRIPTION_H_
