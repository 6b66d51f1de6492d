#include "worker/data/sample_index.h"

#include <algorithm>

namespace ringmaster {

void SampleIndex::Skip(int64_t begin, int64_t end) {
  begin = std::max(begin, end_);
  if (begin >= end) return;
  const int64_t before = skipped();
  const Gap gap = {begin - before, before + end - begin};
  if (!gaps_.empty() && begin == end_) {
    gaps_.back() = gap;  // next_id is the same: nothing valid lies between
  } else {
    gaps_.push_back(gap);
  }
  end_ = end;
}

int64_t SampleIndex::RecordOf(int64_t id) const {
  const auto after = std::upper_bound(
      gaps_.begin(), gaps_.end(), id,
      [](int64_t value, const Gap& gap) { return value < gap.next_id; });
  return after == gaps_.begin() ? id : id + std::prev(after)->skipped;
}

}  // namespace ringmaster
