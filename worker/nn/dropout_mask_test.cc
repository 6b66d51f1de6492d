#include "worker/nn/dropout_mask.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr int64_t kElems = 1 << 18;

// The mask of one sample, 1 for kept.
std::vector<int> MaskOf(double rate, uint64_t key, int64_t sample_id) {
  const DropoutMask mask = DropoutMaskOf({rate, key, &sample_id, kElems}, 0);
  std::vector<int> kept(kElems);
  for (int64_t i = 0; i < kElems; ++i)
    kept[i] = IsKept(mask, static_cast<uint32_t>(i)) ? 1 : 0;
  return kept;
}

// Returns by how many standard deviations the number of i where a[i] and
// b[i + lag] are both kept differs from that of independent masks.
double Deviation(const std::vector<int>& a, const std::vector<int>& b,
                 int64_t lag, double keep) {
  const int64_t count = kElems - lag;
  int64_t both = 0;
  for (int64_t i = 0; i < count; ++i) both += a[i] & b[i + lag];
  const double p = keep * keep;
  // Neighbouring products share a factor where a is b: at most three times the
  // variance of independent ones.
  return (both - count * p) / std::sqrt(count * p * (1 - p));
}

TEST(DropoutMaskTest, KeepsTheShareThatTheRateSays) {
  for (const double rate : {0.001, 0.1, 0.5, 0.9}) {
    for (int64_t sample_id : {0, 1, 2, 1'000'000'007}) {
      int64_t kept = 0;
      for (int k : MaskOf(rate, 7, sample_id)) kept += k;
      const double expected = kElems * (1 - rate);
      EXPECT_NEAR(kept, expected, 4.5 * std::sqrt(expected * rate))
          << rate << " " << sample_id;
    }
  }
}

TEST(DropoutMaskTest, KeepsEverythingAtRateZero) {
  const DropoutMask mask = DropoutMaskOf({}, 0);
  for (uint32_t i : {0u, 1u, 12345u, 0xffffffffu}) EXPECT_TRUE(IsKept(mask, i));
  EXPECT_EQ(DropoutScale({}), 1);
}

TEST(DropoutMaskTest, NeighboursAreIndependent) {
  for (const double rate : {0.1, 0.5}) {
    for (uint64_t key = 1; key <= 4; ++key) {
      const std::vector<int> kept = MaskOf(rate, key, 5);
      for (int64_t lag :
           {1,  2,  3,   4,   5,   8,   15,   16,   17,    32,    63,
            64, 65, 128, 255, 256, 768, 1024, 4096, 65536, 131072}) {
        EXPECT_LT(std::abs(Deviation(kept, kept, lag, 1 - rate)), 6)
            << rate << " " << key << " " << lag;
      }
    }
  }
}

TEST(DropoutMaskTest, SamplesAndKeysAreIndependent) {
  const std::vector<int> kept = MaskOf(0.1, 1, 5);
  for (int64_t lag : {0, 1, 2, 64, 1024}) {
    for (int64_t sample_id : {0, 1, 4, 6, 7, 261}) {
      EXPECT_LT(std::abs(Deviation(kept, MaskOf(0.1, 1, sample_id), lag, 0.9)),
                5)
          << lag << " " << sample_id;
    }
    for (uint64_t key : {0, 2, 3, 257}) {
      EXPECT_LT(std::abs(Deviation(kept, MaskOf(0.1, key, 5), lag, 0.9)), 5)
          << lag << " " << key;
    }
  }
}

TEST(DropoutMaskTest, FollowsTheSampleAndNotItsPlace) {
  const int64_t ids[] = {8, 3, 8};
  const Dropout dropout = {0.5, 11, ids, kElems};
  const DropoutMask first = DropoutMaskOf(dropout, 0);
  const DropoutMask other = DropoutMaskOf(dropout, 1);
  const DropoutMask again = DropoutMaskOf(dropout, 2);
  int differing = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(IsKept(first, i), IsKept(again, i));
    differing += IsKept(first, i) != IsKept(other, i) ? 1 : 0;
  }
  EXPECT_NEAR(differing, 500, 80);
}

}  // namespace
}  // namespace ringmaster
