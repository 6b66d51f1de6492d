#include "worker/train/state/moment_parts.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "common/plan/mesh.h"

namespace ringmaster {
namespace {

void Append(ElemRange range, ElemRanges& ranges) {
  if (range.empty()) return;
  if (!ranges.empty() && ranges.back().end() == range.begin) {
    ranges.back().count += range.count;
  } else {
    ranges.push_back(range);
  }
}

// From one element on a rank has them, or is to have them, or no longer.
struct Border {
  int64_t at = 0;
  int rank = 0;
  bool is_held = false;  // else wanted
  bool begins = false;
};

std::vector<Border> BordersOf(absl::Span<const Possession> ranks) {
  std::vector<Border> borders;
  const auto add = [&borders](const ElemRanges& ranges, int rank,
                              bool is_held) {
    for (const ElemRange& range : ranges) {
      borders.push_back({range.begin, rank, is_held, true});
      borders.push_back({range.end(), rank, is_held, false});
    }
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    add(ranks[rank].held, static_cast<int>(rank), true);
    add(ranks[rank].wanted, static_cast<int>(rank), false);
  }
  std::sort(borders.begin(), borders.end(),
            [](const Border& a, const Border& b) { return a.at < b.at; });
  return borders;
}

// The ranks' relation to the elements that are being passed.
class Sweep {
 public:
  explicit Sweep(size_t ranks) : wants_(ranks, false) {}

  void Pass(const Border& border) {
    const int rank = border.rank;
    const bool lacked = Lacks(rank);
    if (!border.is_held) {
      wants_[static_cast<size_t>(rank)] = border.begins;
    } else if (border.begins) {
      holders_.insert(rank);
    } else {
      holders_.erase(rank);
    }
    lacking_ += static_cast<int>(Lacks(rank)) - static_cast<int>(lacked);
  }

  // The lowest rank that has them; -1: nobody.
  [[nodiscard]] int holder() const {
    return holders_.empty() ? -1 : *holders_.begin();
  }
  [[nodiscard]] bool is_lacked() const { return lacking_ > 0; }

 private:
  [[nodiscard]] bool Lacks(int rank) const {
    return wants_[static_cast<size_t>(rank)] && !holders_.contains(rank);
  }

  std::set<int> holders_;
  std::vector<bool> wants_;
  int lacking_ = 0;
};

}  // namespace

std::vector<MomentPart> PartsOf(int rank, int mirrors,
                                const Topology& topology) {
  const int n = topology.world_size();
  std::vector<MomentPart> parts = {{n, rank}};
  for (const int distance : MirrorDistances(mirrors, topology))
    parts.push_back({n, (rank - distance + n) % n});
  return parts;
}

ElemRanges RangesOf(absl::Span<const MomentPart> parts, const Plan& plan) {
  ElemRanges chunks;
  for (const Bucket& bucket : plan.buckets()) {
    for (const MomentPart& part : parts) {
      const ElemRange chunk =
          ChunkOf(part.index, part.count, bucket.range.count);
      chunks.push_back({bucket.range.begin + chunk.begin, chunk.count});
    }
  }
  std::sort(
      chunks.begin(), chunks.end(),
      [](const ElemRange& a, const ElemRange& b) { return a.begin < b.begin; });
  ElemRanges ranges;
  int64_t end = 0;  // parts of different counts overlap
  for (const ElemRange& chunk : chunks) {
    const int64_t begin = std::max(end, chunk.begin);
    if (begin >= chunk.end()) continue;
    Append({begin, chunk.end() - begin}, ranges);
    end = chunk.end();
  }
  return ranges;
}

ElemRanges Complement(const ElemRanges& ranges, int64_t total) {
  ElemRanges others;
  int64_t begin = 0;
  for (const ElemRange& range : ranges) {
    Append({begin, range.begin - begin}, others);
    begin = range.end();
  }
  Append({begin, total - begin}, others);
  return others;
}

ElemRanges Intersection(const ElemRanges& a, const ElemRanges& b) {
  ElemRanges both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].begin, b[j].begin);
    const int64_t end = std::min(a[i].end(), b[j].end());
    if (begin < end) Append({begin, end - begin}, both);
    (a[i].end() < b[j].end() ? i : j)++;
  }
  return both;
}

std::optional<std::vector<Transfer>> PlanTransfers(
    absl::Span<const Possession> ranks, int64_t total) {
  const std::vector<Border> borders = BordersOf(ranks);
  std::vector<Transfer> transfers;
  Sweep sweep(ranks.size());
  int64_t at = 0;
  size_t next = 0;
  while (at < total) {
    while (next < borders.size() && borders[next].at <= at)
      sweep.Pass(borders[next++]);
    const int64_t end =
        next < borders.size() ? std::min(borders[next].at, total) : total;
    const int source = sweep.holder();
    if (source < 0) return std::nullopt;
    if (sweep.is_lacked()) {
      if (!transfers.empty() && transfers.back().source == source &&
          transfers.back().range.end() == at) {
        transfers.back().range.count += end - at;
      } else {
        transfers.push_back({{at, end - at}, source});
      }
    }
    at = end;
  }
  std::stable_sort(
      transfers.begin(), transfers.end(),
      [](const Transfer& a, const Transfer& b) { return a.source < b.source; });
  return transfers;
}

}  // namespace ringmaster
