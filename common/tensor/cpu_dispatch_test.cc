#include "common/tensor/cpu_dispatch.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/tensor/testing/fused_kernel.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr CpuIsa kAll[] = {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512};

// 1 + 2^-12, whose square has one bit more than a float: rounding the product
// before the addition loses it.
constexpr float kOdd = 1.0f + 0x1p-12f;

RM_KERNEL void SquareMinusOne(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i] - 1.0f;
}

RM_KERNEL void Mix(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = std::sqrt(x[i] * x[i] + 0.3f * y[i]) / (y[i] * 1.7f + x[i]);
}

TEST(CpuDispatchTest, ResultsAreTheSameInEveryVariant) {
  constexpr int64_t kCount = 1003;
  std::vector<float> x(kCount);
  std::vector<float> start(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i + 3);
    start[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i % 17);
  }
  std::vector<float> baseline;
  for (CpuIsa isa : kAll) {
    const ScopedIsaCap cap(isa);
    std::vector<float> y = start;
    CallOnCpu<Mix>(x.data(), y.data(), kCount);
    if (isa == CpuIsa::kBaseline) baseline = y;
    EXPECT_EQ(std::memcmp(y.data(), baseline.data(), kCount * sizeof(float)), 0)
        << CpuIsaName(isa);
  }
}

// Every length that a vector loop and its remainder can have.
TEST(CpuDispatchTest, NoVariantFusesUnlessAskedTo) {
  for (CpuIsa isa : kAll) {
    const ScopedIsaCap cap(isa);
    const bool fuses = CurrentIsa() >= CpuIsa::kAvx2;
    for (int64_t count = 1; count < 70; ++count) {
      const std::vector<float> x(static_cast<size_t>(count), kOdd);
      std::vector<float> y(x.size());
      CallOnCpu<SquareMinusOne>(x.data(), y.data(), count);
      EXPECT_EQ(y, std::vector<float>(x.size(), kOdd * kOdd - 1.0f))
          << CpuIsaName(isa);
      FusedSquareMinusOne(x.data(), y.data(), count);
      const float expected =
          fuses ? std::fma(kOdd, kOdd, -1.0f) : kOdd * kOdd - 1.0f;
      EXPECT_EQ(y, std::vector<float>(x.size(), expected)) << CpuIsaName(isa);
    }
  }
}

TEST(CpuDispatchTest, ACapEndsWithItsScopeAndNeverRaises) {
  const CpuIsa before = CurrentIsa();
  {
    const ScopedIsaCap outer(CpuIsa::kBaseline);
    EXPECT_EQ(CurrentIsa(), CpuIsa::kBaseline);
    const ScopedIsaCap inner(CpuIsa::kAvx512);
    EXPECT_EQ(CurrentIsa(), CpuIsa::kBaseline);
  }
  EXPECT_EQ(CurrentIsa(), before);
}

TEST(CpuDispatchTest, NamesAreReadBack) {
  for (CpuIsa isa : kAll) EXPECT_EQ(CpuIsaNamed(CpuIsaName(isa)), isa);
  EXPECT_EQ(CpuIsaNamed("AVX512"), std::nullopt);
  EXPECT_EQ(CpuIsaNamed(""), std::nullopt);
}

// A death test's child reads the environment anew.
TEST(CpuDispatchDeathTest, TheEnvironmentCapsOrIsToldThatItDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("RINGMASTER_MAX_CPU_ISA", "baseline", 1);
  EXPECT_EXIT(std::_Exit(CurrentIsa() == CpuIsa::kBaseline ? 0 : 1),
              testing::ExitedWithCode(0), "^$");
  setenv("RINGMASTER_MAX_CPU_ISA", "sse9", 1);
  EXPECT_EXIT(std::_Exit(CurrentIsa() == ProcessorIsa() ? 0 : 1),
              testing::ExitedWithCode(0),
              "RINGMASTER_MAX_CPU_ISA is \"sse9\" and has no effect");
}

}  // namespace
}  // namespace ringmaster
