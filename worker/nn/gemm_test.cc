#include "worker/nn/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/gemm_packed.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster {
namespace {

// To bfloat16 by arithmetic, not by bits: 8 significant bits, ties to even as
// std::nearbyint does.
float Rounded(float value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8));
}

template <typename T>
std::vector<T> Rounded(std::vector<T> values) {
  if constexpr (std::is_same_v<T, float>)
    std::ranges::transform(values, values.begin(),
                           [](float x) { return Rounded(x); });
  return values;
}

struct Case {
  GemmShape shape;
  Transpose a_transpose;
  Transpose b_transpose;
};

// Compares `multiply(a, b, output)` with the reference on factors that
// `prepare` rounded: set, set upon a bias, and added.
template <typename T, typename Multiply, typename Prepare>
void ExpectProducts(const Case& test, Multiply multiply, Prepare prepare) {
  const auto [m, n, k] = test.shape;
  const std::vector<T> a = Random<T>(m * k, 1);
  const std::vector<T> b = Random<T>(k * n, 2);
  const std::vector<T> bias = Random<T>(n, 3);
  std::vector<T> product(m * n);
  reference::Gemm<T>(test.a_transpose, test.b_transpose, test.shape,
                     prepare(a).data(), prepare(b).data(), product.data());
  std::vector<T> got = Unwritten<T>(m * n);
  multiply(a.data(), b.data(), GemmOutput<T>{.c = got.data()});
  ASSERT_NO_FATAL_FAILURE(ExpectClose(got, product, "set"));

  std::vector<T> want = product;
  for (size_t i = 0; i < want.size(); ++i) want[i] += bias[i % n];
  got = Unwritten<T>(m * n);
  multiply(a.data(), b.data(),
           GemmOutput<T>{.c = got.data(), .bias = bias.data()});
  ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "set upon a bias"));

  got = Random<T>(m * n, 4);
  want = got;
  for (size_t i = 0; i < want.size(); ++i) want[i] += product[i];
  multiply(a.data(), b.data(),
           GemmOutput<T>{.c = got.data(), .write = Write::kAdd});
  ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "added"));
}

// Calls check(case) for products of odd sizes, and with a few that are larger
// than the blocks of the implementation in each dimension.
template <typename Check>
void ForEachCase(Check check) {
  std::vector<GemmShape> shapes = {
      {300, 50, 10}, {50, 300, 10}, {9, 49, 900}, {60, 7, 801}, {129, 131, 5}};
  for (int64_t m : {0, 1, 7, 33}) {
    for (int64_t n : {0, 1, 16, 49}) {
      for (int64_t k : {0, 1, 2, 17, 40}) shapes.push_back({m, n, k});
    }
  }
  for (const GemmShape& shape : shapes) {
    for (int variant = 0; variant < 4; ++variant) {
      const Case test = {shape, Transpose{(variant & 1) != 0},
                         Transpose{(variant & 2) != 0}};
      ASSERT_NO_FATAL_FAILURE(check(test))
          << shape.m << " x " << shape.n << " x " << shape.k << ", transposes "
          << variant;
    }
  }
}

template <typename T>
class TypedGemmTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TypedGemmTest, ScalarTypes);

TYPED_TEST(TypedGemmTest, MatchesReferenceOnEveryProcessor) {
  using T = TypeParam;
  ThreadPool pool(2);
  for (CpuIsa cap : {CpuIsa::kAvx512, CpuIsa::kAvx2, CpuIsa::kBaseline}) {
    const ScopedIsaCap scope(cap);
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      ForEachCase([&](const Case& test) {
        ExpectProducts<T>(
            test,
            [&](const T* a, const T* b, const GemmOutput<T>& output) {
              Gemm<T>({.pool = pool, .precision = precision}, test.a_transpose,
                      test.b_transpose, test.shape, a, b, output);
            },
            [&](const std::vector<T>& values) {
              return precision == Precision::kBFloat16 ? Rounded(values)
                                                       : values;
            });
      });
    }
  }
}

TEST(GemmTest, UsesTheBlasKernelsOfThisProcessor) {
  if (!__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "this processor has no better kernels than the oldest";
  EXPECT_NE(BlasKernels(), "Prescott");
}

TEST(GemmTest, RoundsSpecialValues) {
  ThreadPool pool(1);
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  // The NaN with all bits set is the one that rounding could carry over.
  const auto nan = std::bit_cast<float>(0x7fffffffu);
  const std::vector<float> from = {
      1 + 1.0f / 256, 1 + 3.0f / 256, -1 - 1.0f / 256, 1.005f, 0,
      infinity,       -infinity,      largest,         nan};
  const std::vector<float> want = {
      1,         1 + 4.0f / 256, -1, 1 + 2.0f / 256, 0, infinity,
      -infinity, infinity,       nan};
  const float one = 1;
  for (CpuIsa cap : {CpuIsa::kAvx512, CpuIsa::kAvx2, CpuIsa::kBaseline}) {
    const ScopedIsaCap scope(cap);
    for (size_t i = 0; i < from.size(); ++i) {
      float got = 7;
      Gemm<float>({.pool = pool, .precision = Precision::kBFloat16},
                  Transpose::kNo, Transpose::kNo, {1, 1, 1}, &from[i], &one,
                  {.c = &got});
      EXPECT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i])))
          << from[i] << " became " << got;
    }
  }
}

TEST(GemmTest, GivesTheSameBitsForEveryPool) {
  for (CpuIsa cap : {CpuIsa::kAvx512, CpuIsa::kAvx2}) {
    const ScopedIsaCap scope(cap);
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      for (const GemmShape& shape :
           {GemmShape{33, 500, 900}, GemmShape{500, 33, 900}}) {
        const auto a = Random<float>(shape.m * shape.k, 1);
        const auto b = Random<float>(shape.k * shape.n, 2);
        std::vector<float> first;
        for (int threads : {1, 2, 3}) {
          ThreadPool pool(threads);
          auto c = Unwritten<float>(shape.m * shape.n);
          Gemm<float>({.pool = pool, .precision = precision}, Transpose::kNo,
                      Transpose::kNo, shape, a.data(), b.data(),
                      {.c = c.data()});
          if (threads == 1) first = c;
          EXPECT_EQ(
              std::memcmp(first.data(), c.data(), c.size() * sizeof(float)), 0)
              << threads << " threads";
        }
      }
    }
  }
}

TEST(GemmTest, AllocatesNothingTheSecondTime) {
  ThreadPool pool(2);
  const GemmShape shape = {40, 100, 500};
  const auto a = Random<float>(shape.m * shape.k, 1);
  const auto b = Random<float>(shape.k * shape.n, 2);
  std::vector<float> c(shape.m * shape.n);
  for (CpuIsa cap : {CpuIsa::kAvx512, CpuIsa::kAvx2, CpuIsa::kBaseline}) {
    const ScopedIsaCap scope(cap);
    const auto multiply = [&] {
      Gemm<float>({.pool = pool, .precision = Precision::kBFloat16},
                  Transpose::kNo, Transpose::kNo, shape, a.data(), b.data(),
                  {.c = c.data()});
    };
    multiply();
    const int64_t before = AllocationCount();
    multiply();
    EXPECT_EQ(AllocationCount(), before);
  }
}

#if defined(__x86_64__)

struct PackedCase {
  const char* name;
  CpuIsa isa;
  Operands operands;
};

class GemmPackedTest : public ::testing::TestWithParam<PackedCase> {
 protected:
  void SetUp() override {
    if (CurrentIsa() != GetParam().isa)
      GTEST_SKIP() << "this processor has no " << CpuIsaName(GetParam().isa);
    if (operands() == Operands::kDot && !HasDot())
      GTEST_SKIP() << "this processor has no AVX512_BF16";
  }
  Operands operands() const { return GetParam().operands; }

 private:
  const ScopedIsaCap cap_{GetParam().isa};
};

TEST_P(GemmPackedTest, MatchesReferenceWhicheverGemmWouldChoose) {
  ThreadPool pool(2);
  ForEachCase([&](const Case& test) {
    const auto [m, n, k] = test.shape;
    if (m * n * k == 0) return;
    const auto multiply = [&, m = m, n = n, k = k](
                              const float* a, const float* b,
                              const GemmOutput<float>& output) {
      const bool is_a_transposed = test.a_transpose == Transpose::kYes;
      const bool is_b_transposed = test.b_transpose == Transpose::kYes;
      GemmPacked(pool, operands(), test.shape,
                 is_a_transposed ? Operand{a, 1, m} : Operand{a, k, 1},
                 is_b_transposed ? Operand{b, k, 1} : Operand{b, 1, n}, output);
    };
    ExpectProducts<float>(test, multiply, [&](const auto& values) {
      return operands() == Operands::kFloat ? values : Rounded(values);
    });
  });
}

// Deeper than what is packed for all threads at once.
TEST_P(GemmPackedTest, AddsUpADeepProduct) {
  ThreadPool pool(2);
  const GemmShape shape = {900, 1000, 3200};
  const std::vector<float> a(shape.m * shape.k, 1);
  const std::vector<float> b(shape.k * shape.n, 0.5);
  auto c = Unwritten<float>(shape.m * shape.n);
  GemmPacked(pool, operands(), shape, {a.data(), shape.k, 1},
             {b.data(), 1, shape.n}, {.c = c.data()});
  EXPECT_TRUE(std::ranges::all_of(c, [](float x) { return x == 1600; }));
}

INSTANTIATE_TEST_SUITE_P(
    All, GemmPackedTest,
    ::testing::Values(
        PackedCase{"Avx2Float", CpuIsa::kAvx2, Operands::kFloat},
        PackedCase{"Avx2Rounded", CpuIsa::kAvx2, Operands::kRounded},
        PackedCase{"Avx512Float", CpuIsa::kAvx512, Operands::kFloat},
        PackedCase{"Avx512Rounded", CpuIsa::kAvx512, Operands::kRounded},
        PackedCase{"Avx512Dot", CpuIsa::kAvx512, Operands::kDot}),
    [](const auto& info) { return info.param.name; });

#endif  // defined(__x86_64__)

}  // namespace
}  // namespace ringmaster
