#include "common/tensor/float_bits.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr uint32_t kSign = 0x8000;
constexpr uint32_t kQuiet = 0x40;
constexpr uint32_t kInfinity = 0x7f80;

uint32_t Narrowed(uint32_t float32) {
  return NarrowToBFloat16(std::bit_cast<float>(float32));
}

uint32_t Widened(uint32_t bfloat16) {
  return std::bit_cast<uint32_t>(
      WidenBFloat16(static_cast<uint16_t>(bfloat16)));
}

TEST(FloatBitsTest, SelectTakesOneOfTwo) {
  EXPECT_EQ(Select(true, 0xdeadbeef, 0x12345678), 0xdeadbeef);
  EXPECT_EQ(Select(false, 0xdeadbeef, 0x12345678), 0x12345678u);
}

TEST(FloatBitsTest, EveryBFloat16MakesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(Widened(bits), bits << 16);
    const bool is_nan = (bits & ~kSign) > kInfinity;
    ASSERT_EQ(Narrowed(Widened(bits)), is_nan ? bits | kQuiet : bits);
  }
}

// Between every two neighbours, subnormal ones and the largest with infinity
// included: just below, at and just above the middle.
TEST(FloatBitsTest, NarrowsToTheNearestAndFromTheMiddleToTheEvenOne) {
  for (uint32_t sign : {0u, kSign}) {
    for (uint32_t magnitude = 0; magnitude < kInfinity; ++magnitude) {
      const uint32_t lower = sign | magnitude;
      const uint32_t upper = lower + 1;
      ASSERT_EQ(Narrowed(lower << 16 | 0x0001), lower);
      ASSERT_EQ(Narrowed(lower << 16 | 0x7fff), lower);
      ASSERT_EQ(Narrowed(lower << 16 | 0x8000),
                magnitude % 2 == 0 ? lower : upper);
      ASSERT_EQ(Narrowed(lower << 16 | 0x8001), upper);
      ASSERT_EQ(Narrowed(lower << 16 | 0xffff), upper);
    }
  }
}

TEST(FloatBitsTest, ANanStaysOneAndBecomesQuiet) {
  EXPECT_EQ(Narrowed(0x7f800001), 0x7fc0u);  // its only bit is cut off
  EXPECT_EQ(Narrowed(0xff800001), 0xffc0u);
  EXPECT_EQ(Narrowed(0x7fa10000), 0x7fe1u);
  EXPECT_EQ(Narrowed(0x7fffffff), 0x7fffu);  // no carry into the sign
  EXPECT_EQ(Narrowed(0xffffffff), 0xffffu);
}

#if defined(__x86_64__)

[[gnu::target("avx512f")]] void NarrowVector(uint32_t (&bits)[16]) {
  _mm512_storeu_si512(bits, NarrowToUpperHalves(_mm512_loadu_si512(bits)));
}

TEST(FloatBitsTest, AVectorHasTheBitsOfTheFloats) {
  if (ProcessorIsa() < CpuIsa::kAvx512) GTEST_SKIP() << "no AVX-512 here";
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    uint32_t before[16];
    for (uint32_t i = 0; i < 16; ++i) {
      constexpr uint32_t kLower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
      before[i] = upper << 16 | (i < 6 ? kLower[i] : (i * 0x9e37u) & 0xffff);
    }
    uint32_t after[16];
    std::memcpy(after, before, sizeof(after));
    NarrowVector(after);
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(after[i] >> 16, Narrowed(before[i])) << before[i];
  }
}

#endif  // defined(__x86_64__)

}  // namespace
}  // namespace ringmaster
