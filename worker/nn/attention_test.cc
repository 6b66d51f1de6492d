#include "worker/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_attention.h"

namespace ringmaster {
namespace {

constexpr int64_t kSampleIds[] = {41, 7, 1'000'003};

int64_t QkvCount(AttentionShape s) {
  return s.samples * s.window * 3 * s.heads * s.head_dim;
}
int64_t OutCount(AttentionShape s) {
  return s.samples * s.window * s.heads * s.head_dim;
}
int64_t RowCount(AttentionShape s) { return s.samples * s.heads * s.window; }

Dropout Drop(AttentionShape s, double rate) {
  return {rate, 99, kSampleIds, s.heads * s.window * s.window};
}

// All results of forward and backward.
template <typename T>
struct Result {
  explicit Result(AttentionShape s)
      : out(Unwritten<T>(OutCount(s))),
        log_sum_exp(Unwritten<T>(RowCount(s))),
        dqkv(Unwritten<T>(QkvCount(s))) {}
  std::vector<T> out;
  std::vector<T> log_sum_exp;
  std::vector<T> dqkv;

  bool operator==(const Result&) const = default;
};

template <typename T>
Result<T> RunFast(ThreadPool& pool, AttentionShape shape,
                  const Dropout& dropout, const std::vector<T>& qkv,
                  const std::vector<T>& dout) {
  const Compute compute = {pool};
  Result<T> result(shape);
  AttentionForward<T>(compute, shape, dropout, qkv.data(), result.out.data(),
                      result.log_sum_exp.data());
  AttentionBackward<T>(compute, shape, dropout, dout.data(), qkv.data(),
                       result.out.data(), result.log_sum_exp.data(), nullptr,
                       result.dqkv.data());
  return result;
}

template <typename T>
Result<T> RunPlain(AttentionShape shape, const Dropout& dropout,
                   const std::vector<T>& qkv, const std::vector<T>& dout) {
  Result<T> result(shape);
  reference::AttentionForward<T>(shape, dropout, qkv.data(), result.out.data(),
                                 result.log_sum_exp.data());
  reference::AttentionBackward<T>(shape, dropout, dout.data(), qkv.data(),
                                  result.dqkv.data());
  return result;
}

template <typename T, typename U>
void ExpectClose(const Result<T>& got, const Result<U>& want,
                 double tolerance) {
  EXPECT_LE(RelativeError(got.out, want.out), tolerance) << "out";
  EXPECT_LE(RelativeError(got.log_sum_exp, want.log_sum_exp), tolerance)
      << "log_sum_exp";
  EXPECT_LE(RelativeError(got.dqkv, want.dqkv), tolerance) << "dqkv";
}

template <typename T>
class AttentionTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, ScalarTypes);

TYPED_TEST(AttentionTest, MatchesReferenceForAllShapes) {
  using T = TypeParam;
  ThreadPool pool(2);
  const double tolerance = std::is_same_v<T, float> ? 3e-6 : 1e-13;
  for (const int64_t window : {1, 2, 7, 63, 64, 65, 130}) {
    for (const int64_t head_dim : {1, 5, 16, 64}) {
      for (const double rate : {0.0, 0.3}) {
        const AttentionShape shape = {2, window, window < 100 ? 3 : 1,
                                      head_dim};
        const std::vector<T> qkv = Random<T>(QkvCount(shape), 1, 3);
        const std::vector<T> dout = Random<T>(OutCount(shape), 2);
        const Dropout dropout = Drop(shape, rate);
        SCOPED_TRACE(testing::Message() << "window " << window << ", head_dim "
                                        << head_dim << ", rate " << rate);
        ExpectClose(RunFast(pool, shape, dropout, qkv, dout),
                    RunPlain(shape, dropout, qkv, dout), tolerance);
      }
    }
  }
}

TYPED_TEST(AttentionTest, MatchesReferenceWithoutACausalMask) {
  using T = TypeParam;
  ThreadPool pool(2);
  const double tolerance = std::is_same_v<T, float> ? 3e-6 : 1e-13;
  for (const int32_t window : {1, 7, 64, 65, 130}) {
    const std::vector<int32_t> lengths = {(window + 1) / 2, window};
    for (const bool is_apart : {false, true}) {
      for (const double rate : {0.0, 0.3}) {
        for (const bool has_lengths : {false, true}) {
          const AttentionShape shape = {2,
                                        window,
                                        2,
                                        20,
                                        /*is_causal=*/false,
                                        is_apart,
                                        has_lengths ? lengths.data() : nullptr};
          const std::vector<T> qkv = Random<T>(QkvCount(shape), 1, 3);
          const std::vector<T> dout = Random<T>(OutCount(shape), 2);
          const Dropout dropout = Drop(shape, rate);
          SCOPED_TRACE(testing::Message()
                       << "window " << window << ", apart " << is_apart
                       << ", lengths " << has_lengths << ", rate " << rate);
          ExpectClose(RunFast(pool, shape, dropout, qkv, dout),
                      RunPlain(shape, dropout, qkv, dout), tolerance);
        }
      }
    }
  }
}

TEST(AttentionTest, PaddingHasNoInfluenceWhateverItIs) {
  ThreadPool pool(1);
  const int32_t length = 70;
  const AttentionShape shape = {1,    130,    2, 16, /*is_causal=*/false,
                                true, &length};
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
  const Result<float> want = RunFast(pool, shape, {}, qkv, dout);
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t i = length * 32; i < 130 * 32; ++i)
      qkv[part * 130 * 32 + i] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_TRUE(RunFast(pool, shape, {}, qkv, dout) == want);
}

TEST(AttentionTest, NoSamplesAreFine) {
  ThreadPool pool(1);
  RunFast<float>(pool, {0, 8, 2, 4}, {}, {}, {});
}

TEST(AttentionTest, MatchesReferenceOnEveryInstructionSet) {
  ThreadPool pool(1);
  const AttentionShape shape = {1, 70, 2, 20};
  const std::vector<float> qkv = Random<float>(QkvCount(shape), 1, 2);
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  const Dropout dropout = Drop(shape, 0.1);
  const Result<float> want = RunPlain(shape, dropout, qkv, dout);
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    const ScopedIsaCap cap(isa);
    SCOPED_TRACE(CpuIsaName(CurrentIsa()));
    ExpectClose(RunFast(pool, shape, dropout, qkv, dout), want, 3e-6);
  }
}

TEST(AttentionTest, FloatIsCloseToDouble) {
  ThreadPool pool(1);
  const AttentionShape shape = {1, 200, 2, 64};
  const std::vector<double> qkv = Random<double>(QkvCount(shape), 1, 4);
  const std::vector<double> dout = Random<double>(OutCount(shape), 2);
  const std::vector<float> qkv_float(qkv.begin(), qkv.end());
  const std::vector<float> dout_float(dout.begin(), dout.end());
  const std::vector<double> rounded_qkv(qkv_float.begin(), qkv_float.end());
  const std::vector<double> rounded_dout(dout_float.begin(), dout_float.end());
  ExpectClose(RunFast(pool, shape, {}, qkv_float, dout_float),
              RunFast(pool, shape, {}, rounded_qkv, rounded_dout), 1e-5);
}

TEST(AttentionTest, GradientsMatchFiniteDifferences) {
  ThreadPool pool(1);
  for (const double rate : {0.0, 0.4}) {
    // More than one tile, so that both sides of the diagonal are met.
    const AttentionShape shape = {1, 67, 2, 3};
    const Dropout dropout = Drop(shape, rate);
    std::vector<double> qkv = Random<double>(QkvCount(shape), 1, 1.5);
    const std::vector<double> dout = Random<double>(OutCount(shape), 2);
    const Result<double> result = RunFast(pool, shape, dropout, qkv, dout);
    const auto objective = [&] {
      std::vector<double> out(dout.size());
      std::vector<double> log_sum_exp(result.log_sum_exp.size());
      AttentionForward<double>({pool}, shape, dropout, qkv.data(), out.data(),
                               log_sum_exp.data());
      return Dot(out, dout);
    };
    constexpr double kStep = 1e-5;
    for (size_t i = 0; i < qkv.size(); i += 5) {
      const double before = qkv[i];
      qkv[i] = before + kStep;
      const double above = objective();
      qkv[i] = before - kStep;
      const double below = objective();
      qkv[i] = before;
      ASSERT_NEAR(result.dqkv[i], (above - below) / (2 * kStep), 1e-8)
          << "element " << i << ", rate " << rate;
    }
  }
}

TEST(AttentionTest, TheFutureDoesNotChangeThePast) {
  ThreadPool pool(1);
  const AttentionShape shape = {1, 130, 2, 16};
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
  const Result<float> before = RunFast(pool, shape, {}, qkv, dout);
  for (const int64_t changed : {1, 63, 64, 100, 129}) {
    std::vector<float> other = qkv;
    const int64_t row = 3 * shape.heads * shape.head_dim;
    for (size_t i = static_cast<size_t>(changed * row); i < other.size(); ++i)
      other[i] += 1;
    const Result<float> after = RunFast(pool, shape, {}, other, dout);
    const auto past = changed * shape.heads * shape.head_dim;
    EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + past,
                           after.out.begin()))
        << changed;
    EXPECT_FALSE(std::equal(before.out.begin() + past, before.out.end(),
                            after.out.begin() + past))
        << changed;
  }
}

TEST(AttentionTest, IsTheSameForEveryPool) {
  const AttentionShape shape = {3, 70, 3, 24};
  const std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  const Dropout dropout = Drop(shape, 0.2);
  ThreadPool one(1);
  const Result<float> want = RunFast(one, shape, dropout, qkv, dout);
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(RunFast(pool, shape, dropout, qkv, dout) == want) << threads;
  }
}

TEST(AttentionTest, DropoutFollowsTheSampleAndNotItsPlace) {
  ThreadPool pool(1);
  const AttentionShape shape = {2, 20, 2, 8};
  // The same sample twice, under one id and then under two.
  std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
  std::copy_n(qkv.begin(), qkv.size() / 2, qkv.begin() + qkv.size() / 2);
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  const auto halves_are_equal = [&](const int64_t* ids) {
    const Dropout dropout = {0.5, 1, ids, shape.heads * 20 * 20};
    const Result<float> result = RunFast(pool, shape, dropout, qkv, dout);
    const size_t half = result.out.size() / 2;
    return std::equal(result.out.begin(), result.out.begin() + half,
                      result.out.begin() + half);
  };
  const int64_t same[] = {5, 5};
  const int64_t different[] = {5, 6};
  EXPECT_TRUE(halves_are_equal(same));
  EXPECT_FALSE(halves_are_equal(different));
}

TEST(AttentionTest, LargeScoresStayFinite) {
  ThreadPool pool(1);
  const AttentionShape shape = {1, 70, 1, 16};
  const std::vector<float> qkv = Random<float>(QkvCount(shape), 1, 100);
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  const Result<float> got = RunFast(pool, shape, {}, qkv, dout);
  ExpectClose(got, RunPlain(shape, {}, qkv, dout), 1e-3);
}

TEST(AttentionTest, WhatIsNotANumberStaysSo) {
  ThreadPool pool(1);
  const AttentionShape shape = {1, 70, 1, 16};
  for (const int64_t part : {0, 1, 2}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
      qkv[(66 * 3 + part) * 16] = bad;
      const std::vector<float> dout = Random<float>(OutCount(shape), 2);
      const Result<float> got = RunFast(pool, shape, {}, qkv, dout);
      double sum = 0;
      for (float x : got.out) sum += x;
      // A key of infinity may have no weight at all.
      if (part != 1 || std::isnan(bad)) {
        EXPECT_FALSE(std::isfinite(sum));
      }
      for (int64_t i = 0; i < 58 * 16; ++i)
        ASSERT_TRUE(std::isfinite(got.out[i])) << i;
    }
  }
}

TEST(AttentionTest, AllocatesNothingOnceItKnowsTheSize) {
  ThreadPool pool(2);
  const AttentionShape shape = {2, 70, 4, 16};
  const std::vector<float> qkv = Random<float>(QkvCount(shape), 1);
  const std::vector<float> dout = Random<float>(OutCount(shape), 2);
  Result<float> result(shape);
  const auto step = [&] {
    AttentionForward<float>({pool}, shape, {}, qkv.data(), result.out.data(),
                            result.log_sum_exp.data());
    AttentionBackward<float>({pool}, shape, {}, dout.data(), qkv.data(),
                             result.out.data(), result.log_sum_exp.data(),
                             nullptr, result.dqkv.data());
  };
  // Chance decides which thread gets a block, but each thread grows its scratch
  // at most once in forward and once in backward.
  int64_t steps_that_allocated = 0;
  for (int i = 0; i < 50; ++i) {
    const int64_t before = AllocationCount();
    step();
    steps_that_allocated += AllocationCount() != before ? 1 : 0;
  }
  EXPECT_LE(steps_that_allocated, 2 * pool.size());
}

TYPED_TEST(AttentionTest, LastRowsAreThoseOfTheWhole) {
  using T = TypeParam;
  for (const int64_t window : {1, 5, 70}) {
    const AttentionShape shape = {1, window, 3, 20};
    const std::vector<T> qkv = Random<T>(window * 3 * 60, 1, 2);
    const std::vector<T> none(window * 60);
    const std::vector<T> whole = RunPlain<T>(shape, {}, qkv, none).out;
    for (const int64_t first : {int64_t{0}, window / 2, window - 1}) {
      std::vector<T> last = Unwritten<T>((window - first) * 60);
      AttentionOfLast<T>(OneThread(), shape, first, qkv.data(), last.data());
      const std::vector<T> want(whole.begin() + first * 60, whole.end());
      EXPECT_LE(RelativeError(last, want),
                sizeof(T) == sizeof(float) ? 1e-5 : 1e-13)
          << window << " " << first;
    }
  }
}

}  // namespace
}  // namespace ringmaster
