#include "common/clock/monotonic_time.h"

#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr MonotonicTime kFuture = MonotonicTime::InfiniteFuture();

TEST(MonotonicTimeTest, AddsAndSubtractsDurations) {
  const MonotonicTime t = MonotonicTime::FromNanos(1'000);
  EXPECT_EQ((t + absl::Microseconds(1)).nanos(), 2'000);
  EXPECT_EQ((t - absl::Microseconds(2)).nanos(), -1'000);
  EXPECT_EQ((t + absl::Seconds(3)) - t, absl::Seconds(3));
  EXPECT_LT(t, t + absl::Nanoseconds(1));
}

TEST(MonotonicTimeTest, SaturatesInsteadOfOverflowing) {
  const MonotonicTime late =
      MonotonicTime::FromNanos(std::numeric_limits<int64_t>::max() - 1);
  EXPECT_EQ(late + absl::Seconds(1), kFuture);
  EXPECT_EQ(MonotonicTime() + absl::InfiniteDuration(), kFuture);
  EXPECT_EQ(MonotonicTime::FromNanos(-5) - absl::InfiniteDuration(),
            MonotonicTime::FromNanos(std::numeric_limits<int64_t>::min()));
}

TEST(MonotonicTimeTest, TheInfiniteFutureStaysThere) {
  EXPECT_EQ(kFuture + absl::Seconds(1), kFuture);
  EXPECT_EQ(kFuture - absl::Seconds(1), kFuture);
  EXPECT_EQ(kFuture - MonotonicTime(), absl::InfiniteDuration());
  EXPECT_EQ(MonotonicTime() - kFuture, -absl::InfiniteDuration());
  EXPECT_EQ(kFuture - kFuture, absl::ZeroDuration());
}

}  // namespace
}  // namespace ringmaster
