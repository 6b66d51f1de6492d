// SpinBudget decides how long a thread polls for new bytes before it sleeps.
//
// Spinning saves the microseconds of a wake-up but occupies a core that the
// peer may be waiting for. So the budget is halved each time it was spent in
// vain, down to a minimum, and doubled each time spinning paid off, up to a
// maximum; now and then the maximum is tried again. Pure; thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_SPIN_BUDGET_H_
#define RINGMASTER_COMMON_TRANSPORT_SPIN_BUDGET_H_

#include <algorithm>

#include "absl/time/time.h"

namespace ringmaster {

class SpinBudget {
 public:
  static constexpr absl::Duration kMin = absl::Microseconds(2);
  static constexpr absl::Duration kMax = absl::Microseconds(100);
  static constexpr int kSleepsPerRetry = 64;

  [[nodiscard]] absl::Duration duration() const { return duration_; }
  void OnSuccess() { duration_ = std::min(duration_ * 2, kMax); }
  void OnSleep() {
    duration_ =
        ++sleeps_ % kSleepsPerRetry == 0 ? kMax : std::max(duration_ / 2, kMin);
  }

 private:
  absl::Duration duration_ = kMax;
  int sleeps_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SPIN_BUDGET_H_
