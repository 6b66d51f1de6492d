#include "common/transport/link_rate.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr double kRate = 100e6;

TEST(LinkRateTest, LetsItsRateThrough) {
  LinkRate rate(kRate);
  MonotonicTime now = MonotonicTime() + absl::Seconds(5);
  const MonotonicTime begin = now;
  double passed = 0;
  while (now < begin + absl::Seconds(1)) {
    const size_t allowed = rate.Allowed(LinkRate::kSend, now);
    if (allowed == 0) {
      now = rate.FreeAt(LinkRate::kSend);
      continue;
    }
    rate.Pass(LinkRate::kSend, allowed, now);
    passed += static_cast<double>(allowed);
  }
  EXPECT_NEAR(passed, kRate, 0.01 * kRate);
}

TEST(LinkRateTest, MakesUpForALittleLatenessAndNoMore) {
  LinkRate rate(kRate);
  const MonotonicTime now = MonotonicTime() + absl::Seconds(5);
  // An idle hour gives no credit beyond two milliseconds.
  rate.Pass(LinkRate::kSend, 100'000, now);
  EXPECT_GT(rate.Allowed(LinkRate::kSend, now), 0u);
  rate.Pass(LinkRate::kSend, 200'000, now);
  EXPECT_EQ(rate.Allowed(LinkRate::kSend, now), 0u);
  EXPECT_EQ(rate.FreeAt(LinkRate::kSend), now + absl::Milliseconds(1));
}

TEST(LinkRateTest, DirectionsAreApart) {
  LinkRate rate(kRate);
  const MonotonicTime now = MonotonicTime() + absl::Seconds(5);
  rate.Pass(LinkRate::kSend, 1'000'000, now);
  EXPECT_EQ(rate.Allowed(LinkRate::kSend, now), 0u);
  EXPECT_GT(rate.Allowed(LinkRate::kReceive, now), 0u);
}

}  // namespace
}  // namespace ringmaster
