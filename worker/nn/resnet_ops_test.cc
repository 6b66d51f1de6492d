// The operators that only a residual network has: strided convolutions, batch
// norms, and its pooling.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/batch_norm.h"
#include "worker/nn/classifier.h"
#include "worker/nn/pixels.h"
#include "worker/nn/pooling.h"
#include "worker/nn/strided_conv.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_resnet_ops.h"

namespace ringmaster {
namespace {

using reference::AsDoubles;
using reference::Doubles;

template <typename T>
constexpr double kTolerance = 2e-6;
template <>
constexpr double kTolerance<double> = 1e-14;

template <typename T>
std::vector<T> Sum(std::vector<T> a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

template <typename T>
struct ConvResult {
  std::vector<T> y;
  std::vector<T> dx;
  std::vector<T> dweight;
};

template <typename T>
ConvResult<T> RunConv(ThreadPool& pool, const StridedConvShape& shape,
                      Write write) {
  const Compute compute = {.pool = pool};
  const int64_t in = shape.batch * shape.in_pixels() * shape.in;
  const int64_t out = shape.batch * shape.out_pixels() * shape.out;
  const auto x = Random<T>(in, 1);
  const auto weight = Random<T>(shape.weight_elems(), 2);
  const auto dy = Random<T>(out, 3);
  auto scratch = Unwritten<T>(StridedConvScratchElems(compute, shape));
  const StridedConvScratch<T> memory = {scratch.data(),
                                        static_cast<int64_t>(scratch.size())};
  ConvResult<T> result = {Unwritten<T>(out), Before<T>(write, in),
                          Before<T>(write, shape.weight_elems())};
  StridedConvForward<T>(compute, shape, x.data(), weight.data(), memory,
                        result.y.data());
  StridedConvBackwardInput<T>(compute, shape, dy.data(), weight.data(), memory,
                              write, result.dx.data());
  StridedConvBackwardWeight<T>(compute, shape, write, dy.data(), x.data(),
                               memory, result.dweight.data());
  return result;
}

template <typename T>
void ExpectConvMatches(const StridedConvShape& shape, Write write) {
  SCOPED_TRACE(testing::Message()
               << shape.height << "x" << shape.width << "x" << shape.in
               << " to " << shape.out << ", kernel " << shape.kernel
               << ", stride " << shape.stride);
  ThreadPool pool(2);
  const ConvResult<T> got = RunConv<T>(pool, shape, write);
  const Doubles x = AsDoubles(Random<T>(got.dx.size(), 1));
  const Doubles weight = AsDoubles(Random<T>(got.dweight.size(), 2));
  const Doubles dy = AsDoubles(Random<T>(got.y.size(), 3));
  const auto added = [&](Doubles gradient) {
    if (write == Write::kSet) return gradient;
    return Sum(gradient, AsDoubles(Before<T>(write, gradient.size())));
  };
  EXPECT_LE(RelativeError(got.y, reference::ConvForward(shape, x, weight)),
            kTolerance<T>);
  EXPECT_LE(RelativeError(
                got.dx, added(reference::ConvBackwardInput(shape, dy, weight))),
            kTolerance<T>);
  EXPECT_LE(RelativeError(got.dweight,
                          added(reference::ConvBackwardWeight(shape, dy, x))),
            kTolerance<T>);
}

const std::vector<StridedConvShape> kConvs = {
    {2, 9, 8, 3, 5, 7, 2},   {2, 7, 6, 4, 6, 3, 1}, {3, 7, 8, 5, 3, 3, 2},
    {2, 6, 5, 8, 16, 1, 1},  {2, 7, 6, 8, 4, 1, 2}, {1, 1, 1, 2, 3, 3, 2},
    {1, 2, 1, 3, 2, 7, 2},   {0, 4, 4, 3, 2, 3, 1}, {5, 40, 40, 16, 8, 3, 1},
    {2, 33, 31, 2, 70, 3, 2}};

TEST(StridedConvTest, MatchesTheReference) {
  for (const StridedConvShape& shape : kConvs) {
    for (const Write write : {Write::kSet, Write::kAdd}) {
      ExpectConvMatches<float>(shape, write);
      ExpectConvMatches<double>(shape, write);
    }
  }
}

TEST(StridedConvTest, GivesTheSameBitsForEveryPool) {
  for (const StridedConvShape& shape : kConvs) {
    ThreadPool one(1);
    const ConvResult<float> want = RunConv<float>(one, shape, Write::kAdd);
    for (const int threads : {2, 3}) {
      ThreadPool pool(threads);
      const ConvResult<float> got = RunConv<float>(pool, shape, Write::kAdd);
      EXPECT_EQ(got.y, want.y);
      EXPECT_EQ(got.dx, want.dx);
      EXPECT_EQ(got.dweight, want.dweight);
    }
  }
}

struct NormCase {
  BatchNormShape shape;
  bool has_branch = false;
  bool rectifies = false;
};

template <typename T>
struct NormResult {
  std::vector<T> y;
  std::vector<T> mean;
  std::vector<T> variance;
  std::vector<T> dx;
  std::vector<T> dgamma;
  std::vector<T> dbeta;
  std::vector<T> dbranch;
};

// A mean that is large, so that a sum of squares would lose digits.
template <typename T>
std::vector<T> NormInput(int64_t count) {
  std::vector<T> x = Random<T>(count, 1);
  for (T& value : x) value += T{4};
  return x;
}

template <typename T>
NormResult<T> RunNorm(ThreadPool& pool, const NormCase& c, Write write) {
  const Compute compute = {.pool = pool};
  const BatchNormShape& shape = c.shape;
  const int64_t count = shape.batch * shape.pixels * shape.channels;
  const int64_t statistics = shape.groups() * shape.channels;
  const auto x = NormInput<T>(count);
  const auto gamma = Random<T>(shape.channels, 2);
  const auto beta = Random<T>(shape.channels, 3);
  const auto branch = Random<T>(count, 4);
  const auto dy = Random<T>(count, 5);
  auto scratch = Unwritten<T>(BatchNormScratchElems(compute, shape));
  NormResult<T> r = {Unwritten<T>(count),
                     Unwritten<T>(statistics),
                     Unwritten<T>(statistics),
                     dy,  // in place
                     Before<T>(write, shape.channels),
                     Before<T>(write, shape.channels),
                     {}};
  BatchNormForward<T>(compute, shape, x.data(), gamma.data(), beta.data(),
                      {c.has_branch ? branch.data() : nullptr, c.rectifies},
                      scratch.data(), r.y.data(), r.mean.data(),
                      r.variance.data());
  if (c.has_branch) {
    r.dbranch = dy;  // in place
    r.dx = Unwritten<T>(count);
  }
  const T* const from = c.has_branch ? r.dbranch.data() : r.dx.data();
  BatchNormBackward<T>(
      compute, shape, write, from, c.rectifies ? r.y.data() : nullptr, x.data(),
      gamma.data(), r.mean.data(), r.variance.data(), scratch.data(),
      r.dx.data(), r.dgamma.data(), r.dbeta.data(),
      c.has_branch ? r.dbranch.data() : nullptr);
  return r;
}

std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  for (const BatchNormShape& shape : std::vector<BatchNormShape>{{3, 20, 5},
                                                                 {4, 9, 64},
                                                                 {5, 7, 130, 2},
                                                                 {2, 600, 3},
                                                                 {3, 5, 7, 1},
                                                                 {5, 1, 3}}) {
    for (const bool has_branch : {false, true}) {
      for (const bool rectifies : {false, true})
        cases.push_back({shape, has_branch, rectifies});
    }
  }
  return cases;
}

template <typename T>
void ExpectNormMatches(const NormCase& c, Write write, double tolerance) {
  const BatchNormShape& shape = c.shape;
  SCOPED_TRACE(testing::Message()
               << shape.batch << "x" << shape.pixels << "x" << shape.channels
               << ", group " << shape.group << ", branch " << c.has_branch
               << ", rectifies " << c.rectifies);
  ThreadPool pool(2);
  const NormResult<T> got = RunNorm<T>(pool, c, write);
  const auto count = static_cast<int64_t>(got.y.size());
  const Doubles x = AsDoubles(NormInput<T>(count));
  const Doubles gamma = AsDoubles(Random<T>(shape.channels, 2));
  const reference::Norm norm = reference::NormForward(
      shape, x, gamma, AsDoubles(Random<T>(shape.channels, 3)),
      c.has_branch ? AsDoubles(Random<T>(count, 4)) : Doubles(), c.rectifies);
  reference::NormGradients want = reference::NormBackward(
      shape, norm, AsDoubles(Random<T>(count, 5)), x, gamma, c.rectifies);
  if (write == Write::kAdd) {
    const Doubles before = AsDoubles(Before<T>(write, shape.channels));
    want.dgamma = Sum(want.dgamma, before);
    want.dbeta = Sum(want.dbeta, before);
  }
  EXPECT_LE(RelativeError(got.y, norm.y), tolerance);
  EXPECT_LE(RelativeError(got.mean, norm.mean), tolerance);
  EXPECT_LE(RelativeError(got.variance, norm.variance), tolerance);
  EXPECT_LE(RelativeError(got.dx, want.dx), 20 * tolerance);
  EXPECT_LE(RelativeError(got.dgamma, want.dgamma), 20 * tolerance);
  EXPECT_LE(RelativeError(got.dbeta, want.dbeta), tolerance);
  if (!c.has_branch) return;
  EXPECT_LE(RelativeError(got.dbranch, want.dbranch), 1e-15);
}

TEST(BatchNormTest, MatchesTheReference) {
  for (const NormCase& c : NormCases()) {
    for (const Write write : {Write::kSet, Write::kAdd}) {
      ExpectNormMatches<double>(c, write, 1e-13);
      ExpectNormMatches<float>(c, write, 5e-6);
    }
  }
}

TEST(BatchNormTest, GivesTheSameBitsForEveryPoolAndCloseOnesForEveryIsa) {
  for (const NormCase& c : NormCases()) {
    ThreadPool one(1);
    const NormResult<float> want = RunNorm<float>(one, c, Write::kSet);
    ThreadPool three(3);
    const NormResult<float> got = RunNorm<float>(three, c, Write::kSet);
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.variance, want.variance);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_EQ(got.dgamma, want.dgamma);
    const ScopedIsaCap cap(CpuIsa::kBaseline);
    const NormResult<float> other = RunNorm<float>(one, c, Write::kSet);
    EXPECT_LE(RelativeError(other.y, want.y), 1e-4);
  }
}

TEST(BatchNormTest, ANanIsNotHidden) {
  ThreadPool pool(1);
  const BatchNormShape shape = {2, 3, 2};
  auto x = Random<float>(12, 1);
  x[2] = std::numeric_limits<float>::quiet_NaN();  // of channel 0
  auto scratch = Unwritten<float>(BatchNormScratchElems({.pool = pool}, shape));
  std::vector<float> y(12), mean(2), variance(2);
  const std::vector<float> ones(2, 1.0f);
  BatchNormForward<float>({.pool = pool}, shape, x.data(), ones.data(),
                          ones.data(), {}, scratch.data(), y.data(),
                          mean.data(), variance.data());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 2 == 0);
  EXPECT_TRUE(std::isnan(variance[0]));
}

TEST(BatchNormTest, RunningStatisticsGoTheirWayToTheMeanOverAllSamples) {
  ThreadPool pool(1);
  // Two groups: of 2 samples, and of 1.
  const BatchNormShape shape = {3, 4, 1, 2};
  const std::vector<double> mean = {1, 4};
  const std::vector<double> variance = {2, 6};
  const double running_mean = 10;
  const double running_variance = 1;
  double dmean = 100;
  double dvariance = 100;
  const auto track = [&](Write write) {
    BatchNormTrack<double>({.pool = pool}, shape, {.scale = 1.0 / 3}, write,
                           mean.data(), variance.data(), &running_mean,
                           &running_variance, &dmean, &dvariance);
  };
  track(Write::kSet);
  EXPECT_NEAR(running_mean - dmean, (2 * 1 + 4) / 3.0, 1e-12);
  // Of 8 values, and of 4.
  EXPECT_NEAR(running_variance - dvariance, (2 * 2 * 8.0 / 7 + 6 * 4.0 / 3) / 3,
              1e-12);
  const double once = dmean;
  track(Write::kAdd);
  EXPECT_NEAR(dmean, 2 * once, 1e-12);
}

TEST(BatchNormTest, PredictsWithRunningStatistics) {
  ThreadPool pool(2);
  const BatchNormShape shape = {2, 3, 2};
  const auto x = Random<float>(12, 1);
  const auto branch = Random<float>(12, 2);
  const std::vector<float> gamma = {2, 3}, beta = {1, -1}, mean = {0.5, 0.25},
                           variance = {4, 9};
  auto scratch = Unwritten<float>(BatchNormScratchElems({.pool = pool}, shape));
  std::vector<float> y(12);
  BatchNormPredict<float>({.pool = pool}, shape, x.data(), gamma.data(),
                          beta.data(), mean.data(), variance.data(),
                          {branch.data(), true}, scratch.data(), y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i % 2;
    const double want =
        gamma[c] * (x[i] - mean[c]) / std::sqrt(variance[c] + 1e-5) + beta[c] +
        branch[i];
    EXPECT_NEAR(y[i], std::max(0.0, want), 1e-6);
  }
}

// As asynchronous workers may leave it.
TEST(BatchNormTest, ANegativeRunningVarianceIsZeroAndANanStaysOne) {
  ThreadPool pool(1);
  const BatchNormShape shape = {1, 1, 2};
  const std::vector<float> x = {1, 1}, ones(2, 1.0f), zeros(2, 0.0f);
  auto scratch = Unwritten<float>(BatchNormScratchElems({.pool = pool}, shape));
  const auto predict = [&](const std::vector<float>& variance) {
    std::vector<float> y(2);
    BatchNormPredict<float>({.pool = pool}, shape, x.data(), ones.data(),
                            zeros.data(), zeros.data(), variance.data(), {},
                            scratch.data(), y.data());
    return y;
  };
  const std::vector<float> got =
      predict({-0.5f, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_EQ(got[0], predict(zeros)[0]);
  EXPECT_TRUE(std::isnan(got[1]));
}

TEST(MaxPool3Test, TakesTheFirstLargestAndGivesItTheGradient) {
  // A line of 5 pixels: windows around 0, 2 and 4.
  const PoolingShape shape = {1, 1, 5, 1};
  const std::vector<float> x = {1, 3, 3, 2, 5};
  std::vector<float> y(3);
  std::vector<uint8_t> winners(3);
  ThreadPool pool(1);
  MaxPool3Forward<float>({.pool = pool}, shape, x.data(), y.data(),
                         winners.data());
  EXPECT_EQ(y, (std::vector<float>{3, 3, 5}));
  EXPECT_EQ(winners, (std::vector<uint8_t>{5, 3, 4}));
  const std::vector<float> dy = {10, 20, 30};
  auto dx = Unwritten<float>(5);
  MaxPool3Backward<float>({.pool = pool}, shape, dy.data(), winners.data(),
                          dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 30, 0, 0, 30}));
}

TEST(MaxPool3Test, GradientsGoWhereValuesCameFrom) {
  for (const PoolingShape& shape :
       std::vector<PoolingShape>{{2, 7, 6, 3}, {1, 8, 5, 2}, {3, 1, 1, 4}}) {
    const int64_t count =
        shape.batch * shape.height * shape.width * shape.channels;
    const int64_t out = shape.batch * ((shape.height + 1) / 2) *
                        ((shape.width + 1) / 2) * shape.channels;
    const auto x = Random<double>(count, 1);
    const auto weights = Random<double>(out, 2);
    std::vector<uint8_t> winners(static_cast<size_t>(out));
    const auto pooled = [&](const std::vector<double>& from) {
      std::vector<double> y(static_cast<size_t>(out));
      MaxPool3Forward<double>(OneThread(), shape, from.data(), y.data(),
                              winners.data());
      return Dot(y, weights);
    };
    pooled(x);
    auto dx = Unwritten<double>(count);
    MaxPool3Backward<double>(OneThread(), shape, weights.data(), winners.data(),
                             dx.data());
    ExpectGradient(x, dx, pooled);
  }
}

TEST(MeanPoolTest, MatchesItsFormula) {
  const PoolingShape shape = {2, 2, 1, 2};
  const std::vector<float> x = {1, 10, 3, 20, 5, 30, 8, 40};
  std::vector<float> y(4);
  ThreadPool pool(2);
  MeanPoolForward<float>({.pool = pool}, shape, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{2, 15, 6.5, 35}));
  auto dx = Unwritten<float>(8);
  MeanPoolBackward<float>({.pool = pool}, shape, y.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{1, 7.5, 1, 7.5, 3.25, 17.5, 3.25, 17.5}));
}

TEST(PixelsTest, NormalizesEachChannel) {
  const PixelScales scales = {2, {0.5f, 2.0f}, {-1.0f, 1.0f}};
  const std::vector<uint8_t> bytes = {0, 1, 2, 255};
  std::vector<float> y(4);
  ThreadPool pool(1);
  NormalizePixels<float>({.pool = pool}, 2, scales, bytes.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{-1, 3, 0, 511}));
}

}  // namespace
}  // namespace ringmaster
