#include "server/parameter_server/host_store.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

ElemRange RangeOf(const ShardRun& shard) {
  const ShardDescription& description = shard.state()->description();
  return {description.first_elem, description.num_elems()};
}

bool Contains(const ElemRange& range, int64_t elem) {
  return elem >= range.begin && elem < range.end();
}

// The shard that is primary here and has `elem`; null: there is none.
ShardRun* FindShard(const HostRun& run, int64_t elem) {
  for (const std::unique_ptr<ShardRun>& shard : run.shards()) {
    if (shard->is_primary() && shard->is_loaded() &&
        Contains(RangeOf(*shard), elem))
      return shard.get();
  }
  return nullptr;
}

// Appends the elements of `range` that lie in the bucket that begins at `begin`.
void AppendOverlap(const ElemRange& range, int64_t begin,
                   absl::Span<const float> values, std::vector<float>& to) {
  const int64_t from = std::max(range.begin, begin);
  const int64_t end =
      std::min(range.end(), begin + static_cast<int64_t>(values.size()));
  if (from >= end) return;
  const float* const first = values.data() + (from - begin);
  to.insert(to.end(), first, first + (end - from));
}

}  // namespace

absl::StatusOr<std::vector<ElemRange>> StoredRanges(const HostRun& run) {
  std::vector<ElemRange> ranges;
  for (const std::unique_ptr<ShardRun>& shard : run.shards()) {
    if (!shard->is_primary()) continue;
    if (!shard->is_loaded()) {
      return absl::UnavailableError(
          "the parameters are still being loaded here; try again");
    }
    ranges.push_back(RangeOf(*shard));
  }
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ElemRange& a, const ElemRange& b) { return a.begin < b.begin; });
  return ranges;
}

absl::StatusOr<StoredElements> ReadElements(
    const HostRun& run, const std::vector<ElemRange>& ranges) {
  RETURN_IF_ERROR(StoredRanges(run).status());
  StoredElements stored;
  stored.step = run.complete_step();
  for (const ElemRange& range : ranges) {
    for (int64_t at = range.begin; at < range.end();) {
      const ShardRun* const shard = FindShard(run, at);
      if (shard == nullptr) {
        return absl::OutOfRangeError(
            absl::StrCat("element ", at, " of the ", range.count, " from ",
                         range.begin, " on is not here"));
      }
      const ShardState& state = *shard->state();
      int64_t begin = state.description().first_elem;
      for (int bucket = 0; bucket < state.buckets(); ++bucket) {
        AppendOverlap(
            {at, range.end() - at}, begin,
            state.ValuesAsOf(bucket, StatePart::kParameters, stored.step),
            stored.elements);
        begin += state.BucketElems(bucket);
      }
      at = begin;
    }
  }
  return stored;
}

absl::Status OutsidePush::Find(const HostRun& run) {
  RETURN_IF_ERROR(StoredRanges(run).status());
  ShardRun* const shard = FindShard(run, begin_);
  const auto count = static_cast<int64_t>(gradient_.size());
  if (shard != nullptr) {
    const ShardState& state = *shard->state();
    int bucket = 0;
    int64_t at = state.description().first_elem;
    for (; bucket < state.buckets() && at < begin_; ++bucket)
      at += state.BucketElems(bucket);
    const int first = bucket;
    const bool is_begin = at == begin_;
    for (; bucket < state.buckets() && at < begin_ + count; ++bucket)
      at += state.BucketElems(bucket);
    if (is_begin && at == begin_ + count) {
      shard_ = shard;
      first_bucket_ = first;
      bucket_count_ = bucket - first;
      return absl::OkStatus();
    }
  }
  return absl::OutOfRangeError(
      absl::StrCat("the ", count, " elements from ", begin_,
                   " on are not whole buckets of one shard that is here"));
}

std::optional<absl::Status> OutsidePush::Advance(HostRun& run) {
  if (shard_ == nullptr) {
    if (absl::Status found = Find(run); !found.ok()) return found;
  }
  for (int i = 0; i < bucket_count_; ++i) {
    if (!shard_->IsFree(first_bucket_ + i)) return std::nullopt;
  }
  if (is_made_) return absl::OkStatus();
  const float* next = gradient_.data();
  for (int i = 0; i < bucket_count_; ++i) {
    const int64_t count = shard_->state()->BucketElems(first_bucket_ + i);
    const absl::Status pushed = shard_->PushOutside(
        first_bucket_ + i, {next, static_cast<size_t>(count)});
    if (!pushed.ok()) return pushed;
    next += count;
  }
  step_ = run.complete_step();
  is_made_ = true;
  // With a backup they are not free before it has the update.
  for (int i = 0; i < bucket_count_; ++i) {
    if (!shard_->IsFree(first_bucket_ + i)) return std::nullopt;
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
