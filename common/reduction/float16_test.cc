#include "common/reduction/float16.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "common/tensor/cpu_dispatch.h"
#include "common/tensor/float_bits.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr CpuIsa kIsas[] = {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512};
constexpr uint32_t kInfinity = 0x7c00;  // and the count of finite magnitudes

// Returns the value of a finite float16, by its definition.
double Worth(uint32_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> 10);
  const int fraction = static_cast<int>(magnitude & 0x3ff);
  return exponent == 0 ? std::ldexp(fraction, -24)
                       : std::ldexp(1024 + fraction, exponent - 25);
}

// Every magnitude's worth in order, and then the number that would come next:
// from the middle between the largest one and this, rounding gives an infinity.
std::vector<double> AllWorths() {
  std::vector<double> worths;
  for (uint32_t magnitude = 0; magnitude < kInfinity; ++magnitude)
    worths.push_back(Worth(magnitude));
  worths.push_back(65536.0);
  return worths;
}

// Finds the nearest float16 in the list of all; doubles hold it exactly.
uint16_t Nearest(const std::vector<double>& worths, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | 0x7e00 | ((bits >> 13) & 0x3ff));
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= worths.back())
    return static_cast<uint16_t>(sign | kInfinity);
  const auto above = std::upper_bound(worths.begin(), worths.end(), magnitude);
  const auto index = static_cast<uint32_t>(above - worths.begin());
  const double to_above = *above - magnitude;
  const double to_below = magnitude - *(above - 1);
  const bool up =
      to_above < to_below || (to_above == to_below && index % 2 == 0);
  return static_cast<uint16_t>(sign | (up ? index : index - 1));
}

// Returns every float16, every middle between two of them and their neighbours,
// random bits, and NaNs.
std::vector<float> FloatsToNarrow(const std::vector<double>& worths) {
  constexpr float kHuge = std::numeric_limits<float>::infinity();
  std::vector<float> floats = {kHuge, std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min()};
  for (size_t i = 0; i + 1 < worths.size(); ++i) {
    const auto middle = static_cast<float>((worths[i] + worths[i + 1]) / 2);
    for (float number : {static_cast<float>(worths[i]), middle}) {
      floats.push_back(std::nextafter(number, 0.0f));
      floats.push_back(number);
      floats.push_back(std::nextafter(number, kHuge));
    }
  }
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  // Quiet, signalling, and with bits that float16 cannot hold.
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fa02000u, 0x7fffffffu})
    floats.push_back(std::bit_cast<float>(bits));
  const size_t positive_count = floats.size();
  for (size_t i = 0; i < positive_count; ++i) floats.push_back(-floats[i]);
  return floats;
}

TEST(Float16Test, NarrowsToTheNearestAndFromTheMiddleToTheEvenOne) {
  const std::vector<double> worths = AllWorths();
  const std::vector<float> floats = FloatsToNarrow(worths);
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    std::vector<uint16_t> narrowed(floats.size());
    NarrowToFloat16(reinterpret_cast<std::byte*>(narrowed.data()),
                    reinterpret_cast<const std::byte*>(floats.data()),
                    static_cast<int64_t>(floats.size()));
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(narrowed[i], Nearest(worths, floats[i]))
          << CpuIsaName(isa) << ", bits " << std::bit_cast<uint32_t>(floats[i]);
    }
  }
}

TEST(Float16Test, KnownNumbersNarrow) {
  const std::vector<float> floats = {1.0f,     -2.0f,    65504.0f, 65519.996f,
                                     65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f};
  std::vector<uint16_t> narrowed(floats.size());
  NarrowToFloat16(reinterpret_cast<std::byte*>(narrowed.data()),
                  reinterpret_cast<const std::byte*>(floats.data()),
                  static_cast<int64_t>(floats.size()));
  EXPECT_EQ(narrowed, (std::vector<uint16_t>{0x3c00, 0xc000, 0x7bff, 0x7bff,
                                             0x7c00, 0x0001, 0x0000, 0x0001}));
}

uint32_t WidenedBits(uint16_t float16) {
  const uint32_t magnitude = float16 & 0x7fff;
  const uint32_t sign = (float16 & 0x8000u) << 16;
  if (magnitude > kInfinity)
    return sign | 0x7fc00000 | (magnitude & 0x3ff) << 13;
  if (magnitude == kInfinity) return sign | 0x7f800000;
  return sign | std::bit_cast<uint32_t>(static_cast<float>(Worth(magnitude)));
}

TEST(Float16Test, WidensEveryFloat16) {
  std::vector<uint16_t> float16s(0x10000);
  for (size_t i = 0; i < float16s.size(); ++i)
    float16s[i] = static_cast<uint16_t>(i);
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    std::vector<uint32_t> widened(float16s.size());
    WidenFloat16(reinterpret_cast<std::byte*>(widened.data()),
                 reinterpret_cast<const std::byte*>(float16s.data()),
                 static_cast<int64_t>(float16s.size()));
    for (size_t i = 0; i < float16s.size(); ++i)
      ASSERT_EQ(widened[i], WidenedBits(float16s[i])) << CpuIsaName(isa) << i;
  }
}

// Lengths around those of vectors, at odd addresses, and nothing past the end:
// each conversion and its reverse on one float16 more than a power of two.
TEST(Float16Test, TakesAnyLengthAtAnyAddress) {
  constexpr int64_t kMost = 40;
  constexpr std::byte kGuard{0xa5};
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    for (int64_t count = 0; count <= kMost; ++count) {
      std::vector<std::byte> float16s(1 + 2 * kMost + 1, kGuard);
      std::vector<std::byte> float32s(3 + 4 * kMost + 1, kGuard);
      for (int64_t i = 0; i < count; ++i) {
        const auto float16 = static_cast<uint16_t>(0x3c00 + i);
        std::memcpy(&float16s[static_cast<size_t>(1 + 2 * i)], &float16, 2);
      }
      const std::vector<std::byte> before = float16s;
      WidenFloat16(&float32s[3], &float16s[1], count);
      for (int64_t i = 0; i < count; ++i) {
        float widened;
        std::memcpy(&widened, &float32s[static_cast<size_t>(3 + 4 * i)], 4);
        ASSERT_EQ(widened, 1.0f + static_cast<float>(i) / 1024) << count;
      }
      EXPECT_EQ(float32s[static_cast<size_t>(3 + 4 * count)], kGuard) << count;
      std::fill(float16s.begin(), float16s.end(), kGuard);
      NarrowToFloat16(&float16s[1], &float32s[3], count);
      EXPECT_EQ(float16s, before) << count;
    }
  }
}

// Whole vectors without a subnormal number, and some with one.
std::vector<float> FloatsForBFloat16(int64_t count, bool has_subnormals) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<float> floats;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const bool is_subnormal = (bits & 0x7f800000) == 0;
    const uint32_t exponent = is_subnormal && !has_subnormals ? 0x3f800000 : 0;
    const bool is_small = has_subnormals && random() % 64 == 0;
    floats.push_back(
        std::bit_cast<float>(is_small ? bits & 0x807fffff : bits | exponent));
  }
  const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000,
                              0x7f800001, 0xffffffff, 0x7f7fffff, 0x3f808000};
  for (size_t i = 0; i < floats.size(); i += 5)
    floats[i] = std::bit_cast<float>(special[i / 5 % std::size(special)]);
  return floats;
}

TEST(Float16Test, ManyBFloat16HaveTheBitsOfEachAlone) {
  constexpr std::byte kGuard{0xa5};
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    for (bool has_subnormals : {false, true}) {
      for (int64_t count : {0, 1, 31, 32, 33, 64, 100, 10007}) {
        const std::vector<float> floats =
            FloatsForBFloat16(count, has_subnormals);
        std::vector<std::byte> narrowed(static_cast<size_t>(1 + 2 * count + 1),
                                        kGuard);
        NarrowToBFloat16(&narrowed[1],
                         reinterpret_cast<const std::byte*>(floats.data()),
                         count);
        for (size_t i = 0; i < floats.size(); ++i) {
          uint16_t bfloat16;
          std::memcpy(&bfloat16, &narrowed[1 + 2 * i], sizeof(bfloat16));
          ASSERT_EQ(bfloat16, NarrowToBFloat16(floats[i]))
              << CpuIsaName(isa) << " " << std::bit_cast<uint32_t>(floats[i]);
        }
        EXPECT_EQ(narrowed.back(), kGuard);
        EXPECT_EQ(narrowed.front(), kGuard);
      }
    }
  }
}

}  // namespace
}  // namespace ringmaster
