// ShardLayout cuts a plan's buckets into the shards that parameter servers
// hold.
//
// A shard is a contiguous run of whole buckets; shards tile the plan in order
// and are as equal in size as whole buckets allow. (Shards are contiguous
// pieces of equal size rather than hashed tensors, because a few large tensors
// would overload one server; Li et al., "Scaling Distributed Machine Learning
// with the Parameter Server", OSDI 2014, section 4.3, hash keys and split large
// ones.)
// Pure: the same plan gives the same shards on every rank.
// Thread-safety: immutable.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_LAYOUT_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/partition.h"
#include "common/plan/plan.h"

namespace ringmaster {

// No shard has more elements.
inline constexpr int64_t kMaxShardElems = int64_t{1} << 40;

struct Shard {
  int index = 0;
  int first_bucket = 0;
  int bucket_count = 0;
  ElemRange range;  // of the arenas
};

class ShardLayout {
 public:
  //   INVALID_ARGUMENT  fewer buckets than shards; the message names
  //                     train.parameter_server and train.bucket_bytes
  [[nodiscard]] static absl::StatusOr<ShardLayout> Create(const Plan& plan,
                                                          int shards);

  [[nodiscard]] std::span<const Shard> shards() const { return shards_; }
  [[nodiscard]] const Shard& ShardOf(int bucket) const;

 private:
  std::vector<Shard> shards_;
};

// A stretch of elements, from the shard's beginning, that updates treat alike.
struct UpdateStretch {
  ElemRange range;
  bool decays = true;        // as Update::decays
  double rate = 1;           // multiplies the learning rate; in (0, 1]
  double tracking_rate = 0;  // see TensorSpec; such a stretch does not decay

  [[nodiscard]] bool is_trained() const { return tracking_rate == 0; }
  friend bool operator==(const UpdateStretch&, const UpdateStretch&) = default;
};

// The facts about a shard that a server needs: sent by every worker, and the
// same from all of them.
struct ShardDescription {
  int shard = 0;
  int first_bucket = 0;
  int64_t first_elem = 0;  // in the arenas
  uint64_t plan_hash = 0;
  std::vector<int64_t> bucket_elems;     // of each bucket, in order
  std::vector<UpdateStretch> stretches;  // tile the shard, in order

  [[nodiscard]] int64_t num_elems() const;
  friend bool operator==(const ShardDescription&,
                         const ShardDescription&) = default;
};

// At least one bucket, none empty, stretches that tile the elements.
//   INVALID_ARGUMENT  what is wrong
[[nodiscard]] absl::Status Validate(const ShardDescription& description);

// On the wire: little endian, checksummed (XXH3). Parse is total.
[[nodiscard]] std::vector<std::byte> Encode(
    const ShardDescription& description);
//   DATA_LOSS  not a description, damaged, or one that is not valid
[[nodiscard]] absl::StatusOr<ShardDescription> ParseShardDescription(
    std::span<const std::byte> bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_LAYOUT_H_
