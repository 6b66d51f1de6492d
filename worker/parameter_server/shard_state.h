// ShardState is a shard's parameters and moments, bucket by bucket, and how
// they are updated.
//
// With two slots (bsp) a bucket's version v lies in slot v % 2: an update reads
// one slot and writes the other, so that it can be taken back until the next
// one. With one slot (ssp, async) updates are made in place and stay.
// Guarantees: an update's result depends on what it is given alone, bit for
// bit, so a copy that is given the same stays the same.
// Not guaranteed: anything of a bucket whose part is being loaded.
// No threads of its own, no channels. Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_STATE_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_STATE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/shard_layout.h"
#include "common/plan/arena.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/allocator.h"

namespace ringmaster {

class ShardState {
 public:
  struct Options {
    OptimizerConfig optimizer = {};
    int64_t total_steps = 1;
    bool is_in_place = false;
  };
  // Parameters come from `parameters`, the rest from `others`; both must
  // outlive the state. `description` is valid.
  //   RESOURCE_EXHAUSTED  there is no memory for it
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardState>> Create(
      const ShardDescription& description, const Options& options,
      Allocator& parameters, Allocator& others);

  [[nodiscard]] const ShardDescription& description() const {
    return description_;
  }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int buckets() const {
    return static_cast<int>(buckets_.size());
  }
  [[nodiscard]] int64_t BucketElems(int bucket) const {
    return buckets_[static_cast<size_t>(bucket)].range.count;
  }
  // Returns true if the optimizer keeps such a part.
  [[nodiscard]] bool Has(StatePart part) const;
  [[nodiscard]] int parts() const { return parts_; }

  // Loading, from outside: where a bucket's part goes as of `step`, and that it
  // is all there, having had `updates` (for optimizers that correct by their
  // number). Buckets count from 0, in the shard. Forgets what it was before.
  [[nodiscard]] absl::Span<float> BeginLoad(int bucket, StatePart part,
                                            int64_t step);
  void EndLoad(int bucket, StatePart part, int64_t step, int64_t updates);
  // Return true if all parts of a bucket, or of all buckets, are there.
  [[nodiscard]] bool IsLoaded(int bucket) const {
    return buckets_[static_cast<size_t>(bucket)].loaded_parts == parts_;
  }
  [[nodiscard]] bool is_loaded() const {
    return loaded_count_ == static_cast<int>(buckets_.size());
  }

  // The newest step of a bucket; and the newest that all have. In place they
  // are what MarkComplete said.
  [[nodiscard]] int64_t VersionOf(int bucket) const {
    return buckets_[static_cast<size_t>(bucket)].version;
  }
  [[nodiscard]] int64_t complete_step() const { return complete_step_; }
  [[nodiscard]] int64_t UpdatesOf(int bucket) const {
    return buckets_[static_cast<size_t>(bucket)].updates;
  }
  // The newest of a bucket. With two slots it stays as it is until the update
  // after the next.
  [[nodiscard]] absl::Span<const float> Values(int bucket,
                                               StatePart part) const;

  // Those as of `step`, the bucket's version or, with two slots, the one
  // before.
  [[nodiscard]] absl::Span<const float> ValuesAsOf(int bucket, StatePart part,
                                                   int64_t step) const;

  // Takes back what was done after `step`. In place only the count restarts.
  //   FAILED_PRECONDITION  it is not loaded, or cannot be as of `step`
  [[nodiscard]] absl::Status ResumeAt(int64_t step);
  // In place: everybody's updates up to `step` are made.
  void MarkComplete(int64_t step);

  // Returns the buffer in which the gradient of a bucket's next update is put
  // together, from the first call until EndGradient. Few buckets are under way
  // at a time, so few such buffers are needed, and they stay in a core's cache.
  //   RESOURCE_EXHAUSTED  there is no memory for one more
  [[nodiscard]] absl::StatusOr<absl::Span<float>> BeginGradient(int bucket);
  void EndGradient(int bucket);
  // Ends all that were begun; for a generation that ended in the middle.
  void EndGradients();
  // The gradient of a bucket for which one was begun.
  [[nodiscard]] absl::Span<float> Gradient(int bucket) const;
  // Its sum of squares; the same order of additions as in Apply.
  [[nodiscard]] double SquaresOf(ThreadPool& pool, int bucket);

  struct Made {
    double norm_squared = 0;  // of the gradient, before scaling
    bool is_left_out = false;
  };
  // Makes the update of `step` with the gradient, multiplied with `scale`;
  // leaves it out if either is not finite. With two slots: requires that `step`
  // follows the bucket's version, which it becomes.
  [[nodiscard]] Made Apply(ThreadPool& pool, int bucket, int64_t step,
                           double scale);
  // In place: one of `workers` updates that make the step together.
  [[nodiscard]] Made ApplyPart(ThreadPool& pool, int bucket, int64_t step,
                               double scale, int workers);

 private:
  struct BucketState {
    ElemRange range;  // in the arenas
    int64_t version = 0;
    int64_t updates = 0;
    int loaded_parts = 0;
    std::array<bool, 3> is_part_loaded = {};
    float* gradient = nullptr;  // one of gradients_, in use
  };
  struct Slot {
    std::vector<Arena> parts;  // by StatePart
  };

  ShardState(const ShardDescription& description, const Options& options,
             Allocator& others);
  [[nodiscard]] const Slot& SlotOf(int64_t version) const {
    return slots_[options_.is_in_place ? 0 : static_cast<size_t>(version % 2)];
  }
  void Advance(BucketState& bucket, int64_t step);
  // Calls `use` for each block, in the bucket; returns the gradient's squares.
  double ForEachBlock(ThreadPool& pool, const BucketState& bucket,
                      absl::FunctionRef<void(ElemRange block)> use);
  // From the slot of `from` to that of `to`; returns the gradient's squares.
  double UpdateBlocks(ThreadPool& pool, const BucketState& bucket,
                      const Update& update, int64_t from, int64_t to);
  void UpdateBlock(const BucketState& bucket, ElemRange block,
                   const Update& update, const Slot& from, const Slot& to);
  void CopySlot(const BucketState& bucket, int64_t from, int64_t to);

  const ShardDescription description_;
  const Options options_;
  const int parts_;
  std::vector<BucketState> buckets_;
  std::vector<Slot> slots_;
  Allocator& others_;
  int64_t largest_elems_ = 0;    // of a bucket
  int64_t statistic_elems_ = 0;  // at the beginning; see Plan
  std::vector<Allocation> gradients_;
  std::vector<float*> free_gradients_;  // the last one used is taken next
  std::vector<double> squares_;         // of blocks
  int loaded_count_ = 0;
  int64_t complete_step_ = 0;
  int ahead_count_ = 0;  // buckets with a version after complete_step_
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_SHARD_STATE_H_
