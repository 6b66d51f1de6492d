// Rabenseifner's all-reduce (2004): a reduce-scatter by recursive halving, then
// an all-gather by recursive doubling. With p ranks, a power of two, at level k
// rank r and its peer r xor 2^k hold sums of the same elements over 2^k ranks
// each: r keeps the half that bit k of r says, adds the peer's to it, and sends
// the other half. After log2 p levels every rank has its share of the total;
// the all-gather goes back the same way. The largest halves are exchanged
// between neighbours, which likely share a host.
//
// Other world sizes are folded (Thakur, Rabenseifner and Gropp, 2005): of the
// first 2(n-p) ranks the even ones give all to the odd one next to them, and
// get the result from it.
//
// A frame received over elements that were sent earlier contains what was sent:
// a result for the half that was given away.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/plan/fold.h"
#include "worker/collective/schedule_builder.h"

namespace ringmaster {
namespace {

// A segment that was received, or completed.
struct Arrived {
  ElemRange range;
  After after;
};

// The last of those that `range` has elements of: the others came before it.
After LastOf(const std::vector<Arrived>& arrived, ElemRange range) {
  for (auto it = arrived.rbegin(); it != arrived.rend(); ++it) {
    if (it->range.begin < range.end() && range.begin < it->range.end()) {
      return it->after;
    }
  }
  return {};
}

class HalvingDoubling {
 public:
  explicit HalvingDoubling(ScheduleBuilder* builder)
      : builder_(*builder), fold_(builder->world_size()) {}

  void Build() {
    const int rank = builder_.rank();
    if (fold_.IsFolded(rank)) {
      for (const ElemRange& segment : builder_.Split(Whole())) {
        builder_.Send(rank + 1, kFoldStep, segment, {});
      }
      for (const ElemRange& segment : Frames(fold_.PlaceOf(rank + 1), 0)) {
        builder_.Keep(rank + 1, UnfoldStep(), segment, {});
      }
      return;
    }
    if (fold_.IsHost(rank)) {
      for (const ElemRange& segment : builder_.Split(Whole())) {
        arrived_.push_back(
            {segment, builder_.Reduce(rank - 1, kFoldStep, segment, {})});
      }
    }
    for (int level = 0; level < fold_.levels(); ++level) Halve(level);
    for (Arrived& part : arrived_) {
      part.after = builder_.Finish(part.range, part.after);
    }
    for (int level = fold_.levels() - 1; level >= 0; --level) Double(level);
    if (fold_.IsHost(rank)) SendHeld(rank - 1, UnfoldStep(), 0);
  }

 private:
  static constexpr int kFoldStep = 0;  // marks of the steps
  [[nodiscard]] int HalveStep(int level) const { return 1 + level; }
  [[nodiscard]] int DoubleStep(int level) const {
    return 2 * fold_.levels() - level;
  }
  [[nodiscard]] int UnfoldStep() const { return 2 * fold_.levels() + 1; }

  [[nodiscard]] ElemRange Whole() const {
    return {0, builder_.request().count};
  }
  [[nodiscard]] int place() const { return fold_.PlaceOf(builder_.rank()); }

  // Returns the range that the rank at `place` holds after `level` halvings.
  [[nodiscard]] ElemRange Held(int place, int level) const {
    ElemRange range = Whole();
    for (int k = 0; k < level; ++k) {
      const int64_t lower = (range.count + 1) / 2;
      const bool is_upper = ((place >> k) & 1) != 0;
      range = is_upper ? ElemRange{range.begin + lower, range.count - lower}
                       : ElemRange{range.begin, lower};
    }
    return range;
  }

  void Halve(int level) {
    const int peer_place = place() ^ (1 << level);
    const int peer = fold_.RankOf(peer_place);
    for (const ElemRange& segment :
         builder_.Split(Held(peer_place, level + 1))) {
      builder_.Send(peer, HalveStep(level), segment, LastOf(arrived_, segment));
    }
    std::vector<Arrived> added;
    for (const ElemRange& segment : builder_.Split(Held(place(), level + 1))) {
      const After after = LastOf(arrived_, segment);
      added.push_back(
          {segment, builder_.Reduce(peer, HalveStep(level), segment, after)});
    }
    arrived_ = added;
  }

  void Double(int level) {
    const int peer_place = place() ^ (1 << level);
    const int peer = fold_.RankOf(peer_place);
    SendHeld(peer, DoubleStep(level), level + 1);
    // These frames wait for all earlier ones, so their arrival stands for it.
    before_ = arrived_.back().after;
    std::vector<Arrived> kept;
    for (const ElemRange& segment : Frames(peer_place, level + 1)) {
      kept.push_back(
          {segment, builder_.Keep(peer, DoubleStep(level), segment, before_)});
    }
    arrived_ = kept;
  }

  // The frames in which the rank at `place` sends what it holds of the result
  // at `level`: one, where they fit; otherwise first what it has held for
  // longer, then what it is just receiving.
  [[nodiscard]] std::vector<ElemRange> Frames(int place, int level) const {
    const ElemRange held = Held(place, level);
    if (level == fold_.levels() ||
        held.count <= builder_.request().segment_count) {
      return builder_.Split(held);
    }
    std::vector<ElemRange> frames = builder_.Split(Held(place, level + 1));
    for (const ElemRange& segment :
         builder_.Split(Held(place ^ (1 << level), level + 1))) {
      frames.push_back(segment);
    }
    return frames;
  }

  void SendHeld(int peer, int step, int level) {
    for (const ElemRange& segment : Frames(place(), level)) {
      After after = LastOf(arrived_, segment);
      if (after.peer < 0) after = before_;
      builder_.Send(peer, step, segment, after);
    }
  }

  ScheduleBuilder& builder_;
  const Fold fold_;
  std::vector<Arrived> arrived_;  // in the last step
  After before_;                  // all that was held before that
};

}  // namespace

void BuildHalvingDoubling(ScheduleBuilder* builder) {
  HalvingDoubling(builder).Build();
}

}  // namespace ringmaster
