#include "worker/parameter_server/host_store.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/parameter_server/least_steps.h"

namespace ringmaster {
namespace {

ElemRange RangeOf(const ShardRun& shard) {
  const ShardDescription& description = shard.state()->description();
  return {description.first_elem, description.num_elems()};
}

bool Contains(const ElemRange& range, int64_t elem) {
  return elem >= range.begin && elem < range.end();
}

// The shard that is primary in `run` and has `elem`; null: there is none.
ShardRun* FindShard(const HostRun& run, int64_t elem) {
  for (const std::unique_ptr<ShardRun>& shard : run.shards()) {
    if (shard->is_primary() && shard->is_loaded() &&
        Contains(RangeOf(*shard), elem))
      return shard.get();
  }
  return nullptr;
}

const ShardRun* FindShard(const HostRuns& runs, int64_t elem) {
  for (const HostRun* const run : runs) {
    if (const ShardRun* const shard = FindShard(*run, elem)) return shard;
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

int64_t CompleteStepOf(const HostRuns& runs) {
  LeastSteps least;
  for (const HostRun* const run : runs) least.Add(run->least_steps());
  return least.CompleteStep(runs.front()->resume_step());
}

absl::StatusOr<std::vector<ElemRange>> StoredRanges(const HostRuns& runs) {
  std::vector<ElemRange> ranges;
  for (const HostRun* const run : runs) {
    for (const std::unique_ptr<ShardRun>& shard : run->shards()) {
      if (!shard->is_primary()) continue;
      if (!shard->is_loaded()) {
        return absl::UnavailableError(
            "the parameters are still being loaded here; try again");
      }
      ranges.push_back(RangeOf(*shard));
    }
  }
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ElemRange& a, const ElemRange& b) { return a.begin < b.begin; });
  return ranges;
}

absl::StatusOr<StoredElements> ReadElements(
    const HostRuns& runs, const std::vector<ElemRange>& ranges) {
  RETURN_IF_ERROR(StoredRanges(runs).status());
  StoredElements stored;
  stored.step = CompleteStepOf(runs);
  for (const ElemRange& range : ranges) {
    for (int64_t at = range.begin; at < range.end();) {
      const ShardRun* const shard = FindShard(runs, at);
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

absl::Status OutsidePush::Find(HostRun& run) {
  RETURN_IF_ERROR(StoredRanges({&run}).status());
  ShardRun* const shard = FindShard(run, begin_);
  const absl::Span<const float> gradient = gradient_;
  const int64_t end = begin_ + static_cast<int64_t>(gradient.size());
  std::vector<Bucket> found;
  int64_t reached = begin_;
  if (shard != nullptr) {
    int64_t at = shard->state()->description().first_elem;
    for (int bucket = 0; bucket < shard->state()->buckets(); ++bucket) {
      const int64_t count = shard->state()->BucketElems(bucket);
      if (at == reached && at + count <= end) {
        found.push_back(
            {bucket, gradient.subspan(static_cast<size_t>(at - begin_),
                                      static_cast<size_t>(count))});
        reached += count;
      }
      at += count;
    }
  }
  if (found.empty() || reached != end) {
    return absl::OutOfRangeError(
        absl::StrCat("the ", gradient.size(), " elements from ", begin_,
                     " on are not whole buckets of one shard that is here"));
  }
  shard_ = shard;
  buckets_ = std::move(found);
  return absl::OkStatus();
}

absl::Status OutsidePush::AdvanceBucket(Bucket& bucket) {
  if (bucket.updates >= 0 || !shard_->IsFree(bucket.index))
    return absl::OkStatus();
  RETURN_IF_ERROR(shard_->PushOutside(bucket.index, bucket.gradient));
  bucket.updates = shard_->state()->UpdatesOf(bucket.index);
  return absl::OkStatus();
}

// A bucket's next update is not made before the backup has this one.
bool OutsidePush::IsDone(const Bucket& bucket) const {
  return bucket.updates >= 0 &&
         (!shard_->AwaitsBackup(bucket.index) ||
          shard_->state()->UpdatesOf(bucket.index) > bucket.updates);
}

std::optional<absl::Status> OutsidePush::Advance(HostRun& run) {
  if (shard_ == nullptr) {
    if (absl::Status found = Find(run); !found.ok()) return found;
  }
  // Each on its own: workers push without a pause, so all might never be free at
  // one time.
  for (Bucket& bucket : buckets_) {
    if (absl::Status made = AdvanceBucket(bucket); !made.ok()) return made;
  }
  if (!std::all_of(buckets_.begin(), buckets_.end(),
                   [this](const Bucket& bucket) { return IsDone(bucket); }))
    return std::nullopt;
  return absl::OkStatus();
}

}  // namespace ringmaster
