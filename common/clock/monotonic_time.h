// MonotonicTime: a point on a clock that never goes back, without relation to
// the wall clock.
//
// Immutable value type, nanosecond resolution. Differences are absl::Duration.
// Liveness, deadlines and measured durations use it; wall time is for display
// only.
#ifndef RINGMASTER_COMMON_CLOCK_MONOTONIC_TIME_H_
#define RINGMASTER_COMMON_CLOCK_MONOTONIC_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace ringmaster {

class MonotonicTime {
 public:
  // The clock's origin (of no meaning by itself).
  constexpr MonotonicTime() = default;

  static constexpr MonotonicTime FromNanos(int64_t nanos) {
    return MonotonicTime(nanos);
  }
  // Later than every time that a clock returns: "no deadline yet known", never
  // "wait for ever".
  static constexpr MonotonicTime InfiniteFuture() {
    return MonotonicTime(std::numeric_limits<int64_t>::max());
  }

  constexpr int64_t nanos() const { return nanos_; }

  // Not left to <=>: nvcc, which includes this, loses one that is not declared.
  friend constexpr bool operator==(MonotonicTime, MonotonicTime) = default;
  friend constexpr auto operator<=>(MonotonicTime, MonotonicTime) = default;
  // Saturates at InfiniteFuture above; the far past below is of no use to us
  // and saturates at the smallest value.
  friend MonotonicTime operator+(MonotonicTime t, absl::Duration d) {
    if (t == InfiniteFuture()) return t;
    const int64_t delta = absl::ToInt64Nanoseconds(d);
    int64_t sum = 0;
    if (__builtin_add_overflow(t.nanos_, delta, &sum)) {
      return delta > 0 ? InfiniteFuture()
                       : MonotonicTime(std::numeric_limits<int64_t>::min());
    }
    return MonotonicTime(sum);
  }
  friend MonotonicTime operator-(MonotonicTime t, absl::Duration d) {
    return t + (-d);
  }
  // Infinite where exactly one of both is InfiniteFuture.
  friend absl::Duration operator-(MonotonicTime a, MonotonicTime b) {
    if (a == b) return absl::ZeroDuration();
    if (a == InfiniteFuture()) return absl::InfiniteDuration();
    if (b == InfiniteFuture()) return -absl::InfiniteDuration();
    return absl::Nanoseconds(a.nanos_) - absl::Nanoseconds(b.nanos_);
  }
  friend MonotonicTime& operator+=(MonotonicTime& t, absl::Duration d) {
    return t = t + d;
  }

 private:
  explicit constexpr MonotonicTime(int64_t nanos) : nanos_(nanos) {}
  int64_t nanos_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CLOCK_MONOTONIC_TIME_H_
