#include "worker/train/exchange/shard_description.h"

#include <algorithm>

namespace ringmaster {

ShardDescription DescribeShard(const Shard& shard, const Plan& plan,
                               std::span<const UpdateStretch> stretches) {
  ShardDescription description;
  description.shard = shard.index;
  description.first_bucket = shard.first_bucket;
  description.first_elem = shard.range.begin;
  description.plan_hash = plan.hash();
  for (int i = 0; i < shard.bucket_count; ++i) {
    const auto bucket = static_cast<size_t>(shard.first_bucket + i);
    description.bucket_elems.push_back(plan.buckets()[bucket].range.count);
  }
  for (const UpdateStretch& stretch : stretches) {
    const int64_t begin = std::max(stretch.range.begin, shard.range.begin);
    const int64_t end = std::min(stretch.range.end(), shard.range.end());
    if (begin >= end) continue;
    description.stretches.push_back({{begin - shard.range.begin, end - begin},
                                     stretch.decays,
                                     stretch.rate,
                                     stretch.tracking_rate});
  }
  return description;
}

}  // namespace ringmaster
