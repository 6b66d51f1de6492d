#include "worker/figures/peak_flops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/clock/testing/fake_clock.h"
#include "worker/figures/fma_burst.h"

namespace ringmaster {
namespace {

// With a factor and an addend of 1, each multiply-add adds 1 to the sum: the
// chains did all the work that is claimed for them, and none was optimized
// away.
TEST(FmaBurstTest, DoesAllTheWorkItClaims) {
  constexpr int64_t kIterations = 1000;
  std::vector<FmaBurst> bursts = Float32Bursts();
  ASSERT_FALSE(bursts.empty());
  for (const FmaBurst& burst : BFloat16Bursts()) bursts.push_back(burst);
  for (const FmaBurst& burst : bursts) {
    EXPECT_EQ(2 * burst.run(kIterations, 1, 1),
              static_cast<double>(kIterations * burst.flops_per_iteration))
        << burst.isa;
  }
}

TEST(FmaBurstTest, MultipliesAndAdds) {
  for (const FmaBurst& burst : Float32Bursts()) {
    // 0, 3, 3 * 2 + 3, 9 * 2 + 3
    const double lanes = static_cast<double>(burst.flops_per_iteration) / 2;
    EXPECT_EQ(burst.run(3, 2, 3), 21 * lanes) << burst.isa;
  }
  for (const FmaBurst& burst : BFloat16Bursts()) {
    const double products = static_cast<double>(burst.flops_per_iteration) / 2;
    EXPECT_EQ(burst.run(3, 2, 3), 18 * products) << burst.isa;
  }
}

TEST(PeakFlopsTest, FindsAPeakForWhatTheProcessorHas) {
  const PeakFlops peak = MeasurePeakFlops(Clock::Real());
  EXPECT_GT(peak.float32, 0);
  EXPECT_TRUE(std::isfinite(peak.float32));
  EXPECT_EQ(peak.bfloat16 > 0, !BFloat16Bursts().empty());
}

TEST(PeakFlopsTest, AClockThatStandsStillGivesNone) {
  const FakeClock clock;
  const PeakFlops peak = MeasurePeakFlops(clock);
  EXPECT_EQ(peak.float32, 0);
  EXPECT_EQ(peak.bfloat16, 0);
}

}  // namespace
}  // namespace ringmaster
