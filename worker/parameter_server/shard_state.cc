#include "worker/parameter_server/shard_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// A block stays in a core's cache from the sum of its squares to its update.
constexpr int64_t kBlockElems = int64_t{1} << 16;

constexpr std::array<ArenaRole, 3> kRoles = {
    ArenaRole::kParameters, ArenaRole::kFirstMoment, ArenaRole::kSecondMoment};

size_t IndexOf(StatePart part) { return static_cast<size_t>(part); }

}  // namespace

ShardState::ShardState(const ShardDescription& description,
                       const Options& options, Allocator& others)
    : description_(description),
      options_(options),
      parts_(1 + MomentsOf(options.optimizer)),
      others_(others) {
  int64_t begin = 0;
  for (const int64_t elems : description.bucket_elems) {
    BucketState bucket;
    bucket.range = {begin, elems};
    buckets_.push_back(bucket);
    begin += elems;
    largest_elems_ = std::max(largest_elems_, elems);
  }
  for (const UpdateStretch& stretch : description.stretches) {
    if (!stretch.is_trained()) statistic_elems_ = stretch.range.end();
  }
  squares_.resize(
      static_cast<size_t>((largest_elems_ + kBlockElems - 1) / kBlockElems));
}

absl::StatusOr<std::unique_ptr<ShardState>> ShardState::Create(
    const ShardDescription& description, const Options& options,
    Allocator& parameters, Allocator& others) {
  std::unique_ptr<ShardState> state(
      new ShardState(description, options, others));
  const int64_t elems = description.num_elems();
  state->slots_.resize(options.is_in_place ? 1 : 2);
  for (Slot& slot : state->slots_) {
    for (size_t part = 0; part < static_cast<size_t>(state->parts_); ++part) {
      ASSIGN_OR_RETURN(Arena arena,
                       Arena::Create(kRoles[part], DType::kFloat32, elems,
                                     part == 0 ? parameters : others));
      slot.parts.push_back(std::move(arena));
    }
  }
  return state;
}

bool ShardState::Has(StatePart part) const {
  return static_cast<int>(part) < parts_;
}

absl::Span<float> ShardState::BeginLoad(int bucket, StatePart part,
                                        int64_t step) {
  RM_CHECK(Has(part), "a part that the optimizer has");
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  if (state.version != step || state.is_part_loaded[IndexOf(part)]) {
    if (state.loaded_parts == parts_) --loaded_count_;
    state.loaded_parts = 0;
    state.is_part_loaded = {};
    state.version = step;
  }
  return SlotOf(step).parts[IndexOf(part)].Slice<float>(state.range);
}

void ShardState::EndLoad(int bucket, StatePart part, int64_t step,
                         int64_t updates) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  RM_CHECK(state.version == step && !state.is_part_loaded[IndexOf(part)],
           "a part that is being loaded");
  state.is_part_loaded[IndexOf(part)] = true;
  state.updates = updates;
  if (++state.loaded_parts < parts_) return;
  if (++loaded_count_ < buckets()) return;
  complete_step_ = step;
  for (const BucketState& each : buckets_)
    complete_step_ = std::min(complete_step_, each.version);
  ahead_count_ = static_cast<int>(std::count_if(
      buckets_.begin(), buckets_.end(), [this](const BucketState& each) {
        return each.version > complete_step_;
      }));
}

absl::Span<const float> ShardState::Values(int bucket, StatePart part) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  return SlotOf(state.version).parts[IndexOf(part)].Slice<float>(state.range);
}

absl::Span<const float> ShardState::ValuesAsOf(int bucket, StatePart part,
                                               int64_t step) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  RM_CHECK(options_.is_in_place || step == state.version ||
               step + 1 == state.version,
           "a version that is there");
  return SlotOf(step).parts[IndexOf(part)].Slice<float>(state.range);
}

absl::Status ShardState::ResumeAt(int64_t step) {
  if (!is_loaded()) {
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", description_.shard, " is here in part only"));
  }
  if (options_.is_in_place) {
    complete_step_ = step;
    return absl::OkStatus();
  }
  for (const BucketState& bucket : buckets_) {
    if (bucket.version == step || bucket.version == step + 1) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", description_.shard, " is here as of step ",
                     bucket.version, ", which cannot be taken back to ", step));
  }
  for (BucketState& bucket : buckets_) {
    if (bucket.version == step) continue;
    bucket.version = step;
    --bucket.updates;
  }
  complete_step_ = step;
  ahead_count_ = 0;
  return absl::OkStatus();
}

void ShardState::MarkComplete(int64_t step) {
  RM_CHECK(options_.is_in_place, "an update in place");
  complete_step_ = step;
}

absl::StatusOr<absl::Span<float>> ShardState::BeginGradient(int bucket) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  if (state.gradient == nullptr) {
    if (free_gradients_.empty()) {
      ASSIGN_OR_RETURN(
          Allocation memory,
          others_.Allocate(largest_elems_ * SizeOf(DType::kFloat32)));
      free_gradients_.push_back(static_cast<float*>(memory.data()));
      gradients_.push_back(std::move(memory));
    }
    state.gradient = free_gradients_.back();
    free_gradients_.pop_back();
  }
  return Gradient(bucket);
}

void ShardState::EndGradient(int bucket) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  if (state.gradient == nullptr) return;
  free_gradients_.push_back(std::exchange(state.gradient, nullptr));
}

void ShardState::EndGradients() {
  for (int bucket = 0; bucket < buckets(); ++bucket) EndGradient(bucket);
}

absl::Span<float> ShardState::Gradient(int bucket) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  RM_CHECK(state.gradient != nullptr, "a gradient that was begun");
  return {state.gradient, static_cast<size_t>(state.range.count)};
}

double ShardState::SquaresOf(ThreadPool& pool, int bucket) {
  return ForEachBlock(pool, buckets_[static_cast<size_t>(bucket)],
                      [](ElemRange) {});
}

double ShardState::ForEachBlock(ThreadPool& pool, const BucketState& bucket,
                                absl::FunctionRef<void(ElemRange)> use) {
  pool.ParallelFor(
      bucket.range.count, kBlockElems, [&](int64_t begin, int64_t end) {
        squares_[static_cast<size_t>(begin / kBlockElems)] =
            SumOfGradientSquares(
                absl::Span<const float>(bucket.gradient + begin,
                                        static_cast<size_t>(end - begin)),
                std::clamp<int64_t>(
                    statistic_elems_ - (bucket.range.begin + begin), 0,
                    end - begin));
        use({begin, end - begin});
      });
  double sum = 0;
  for (int64_t begin = 0; begin < bucket.range.count; begin += kBlockElems)
    sum += squares_[static_cast<size_t>(begin / kBlockElems)];
  return sum;
}

ShardState::Made ShardState::Apply(ThreadPool& pool, int bucket, int64_t step,
                                   double scale) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  RM_CHECK(!options_.is_in_place && step == state.version + 1,
           "an update follows the one before");
  Update update;
  update.step = step;
  update.learning_rate = LearningRateAt(options_.optimizer.schedule,
                                        options_.optimizer.learning_rate, step,
                                        options_.total_steps);
  update.gradient_scale = scale;
  Made made;
  made.norm_squared = UpdateBlocks(pool, state, update, state.version, step);
  if (!std::isfinite(made.norm_squared) || !std::isfinite(scale)) {
    made.is_left_out = true;
    CopySlot(state, state.version, step);
  }
  Advance(state, step);
  return made;
}

ShardState::Made ShardState::ApplyPart(ThreadPool& pool, int bucket,
                                       int64_t step, double scale,
                                       int workers) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  RM_CHECK(options_.is_in_place && workers >= 1, "an update in place");
  Made made;
  // An update in place cannot be taken back, so the gradient is looked at
  // first.
  made.norm_squared = SquaresOf(pool, bucket);
  made.is_left_out = !std::isfinite(made.norm_squared) || !std::isfinite(scale);
  state.version = std::max(state.version, step);
  ++state.updates;
  if (made.is_left_out) return made;
  Update update;
  update.step = state.updates;
  update.learning_rate = LearningRateAt(options_.optimizer.schedule,
                                        options_.optimizer.learning_rate, step,
                                        options_.total_steps) /
                         workers;
  update.gradient_scale = scale;
  UpdateBlocks(pool, state, update, state.version, state.version);
  return made;
}

void ShardState::Advance(BucketState& bucket, int64_t step) {
  bucket.version = step;
  ++bucket.updates;
  if (step == complete_step_ + 1) ++ahead_count_;
  if (ahead_count_ < buckets()) return;
  ++complete_step_;
  ahead_count_ = 0;
}

double ShardState::UpdateBlocks(ThreadPool& pool, const BucketState& bucket,
                                const Update& update, int64_t from,
                                int64_t to) {
  return ForEachBlock(pool, bucket, [&](ElemRange block) {
    UpdateBlock(bucket, block, update, SlotOf(from), SlotOf(to));
  });
}

void ShardState::UpdateBlock(const BucketState& bucket, ElemRange block,
                             const Update& update, const Slot& from,
                             const Slot& to) {
  const std::vector<UpdateStretch>& stretches = description_.stretches;
  const int64_t first = bucket.range.begin + block.begin;
  auto stretch = std::upper_bound(stretches.begin(), stretches.end(), first,
                                  [](int64_t at, const UpdateStretch& each) {
                                    return at < each.range.end();
                                  });
  for (int64_t begin = first; begin < first + block.count; ++stretch) {
    const int64_t end = std::min(first + block.count, stretch->range.end());
    const ElemRange part = {begin, end - begin};
    const auto of = [&](const Slot& slot, StatePart which) {
      return Has(which) ? slot.parts[IndexOf(which)].Slice<float>(part)
                        : absl::Span<float>();
    };
    OptimizerSlice<float> slice = {
        of(to, StatePart::kParameters),
        {bucket.gradient + (begin - bucket.range.begin),
         static_cast<size_t>(part.count)},
        of(to, StatePart::kFirstMoment),
        of(to, StatePart::kSecondMoment)};
    if (&from != &to) {
      slice.from = {of(from, StatePart::kParameters),
                    of(from, StatePart::kFirstMoment),
                    of(from, StatePart::kSecondMoment)};
    }
    Update own = update;
    own.decays = stretch->decays;
    own.learning_rate *= stretch->rate;
    own.tracking_rate = stretch->tracking_rate;
    ApplyOptimizer<float>(options_.optimizer, own, slice);
    begin = end;
  }
}

void ShardState::CopySlot(const BucketState& bucket, int64_t from, int64_t to) {
  for (size_t part = 0; part < static_cast<size_t>(parts_); ++part) {
    const absl::Span<float> source =
        SlotOf(from).parts[part].Slice<float>(bucket.range);
    std::copy(source.begin(), source.end(),
              SlotOf(to).parts[part].Slice<float>(bucket.range).begin());
  }
}

}  // namespace ringmaster
