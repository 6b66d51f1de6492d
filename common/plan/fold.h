// Fold reduces any world size to a power of two: Thakur, Rabenseifner and
// Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
//
// Pure; a value.
#ifndef RINGMASTER_COMMON_PLAN_FOLD_H_
#define RINGMASTER_COMMON_PLAN_FOLD_H_

namespace ringmaster {

// The ranks that remain after others have been folded into them, by place.
class Fold {
 public:
  explicit Fold(int world_size) {
    while (places_ * 2 <= world_size) {
      places_ *= 2;
      ++levels_;
    }
    folded_ = world_size - places_;
  }

  [[nodiscard]] int levels() const { return levels_; }
  [[nodiscard]] bool IsFolded(int rank) const {
    return rank < 2 * folded_ && rank % 2 == 0;
  }
  // Returns true if another rank, the one before it, is folded into it.
  [[nodiscard]] bool IsHost(int rank) const {
    return rank < 2 * folded_ && rank % 2 == 1;
  }
  // Requires !IsFolded(rank).
  [[nodiscard]] int PlaceOf(int rank) const {
    return rank < 2 * folded_ ? rank / 2 : rank - folded_;
  }
  [[nodiscard]] int RankOf(int place) const {
    return place < folded_ ? 2 * place + 1 : place + folded_;
  }

 private:
  int places_ = 1;
  int levels_ = 0;
  int folded_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_FOLD_H_
