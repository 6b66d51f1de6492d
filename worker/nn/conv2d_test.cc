#include "worker/nn/conv2d.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_conv.h"

namespace ringmaster {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
struct Inputs {
  explicit Inputs(const Conv2dShape& s)
      : x(Random<T>(s.batch * s.height * s.width * s.in, 1)),
        weight(Random<T>(s.out * s.kernel * s.kernel * s.in, 2)),
        bias(Random<T>(s.out, 3)),
        dy(Random<T>(s.batch * s.height * s.width * s.out, 4)) {}

  std::vector<T> x;
  std::vector<T> weight;
  std::vector<T> bias;
  std::vector<T> dy;
};

// All begin as NaN, so that an element left unwritten shows.
template <typename T>
struct Outputs {
  explicit Outputs(const Inputs<T>& in)
      : y(Unwritten<T>(in.dy.size())),
        dx(Unwritten<T>(in.x.size())),
        dweight(Unwritten<T>(in.weight.size())),
        dbias(Unwritten<T>(in.bias.size())) {}

  std::vector<T> y;
  std::vector<T> dx;
  std::vector<T> dweight;
  std::vector<T> dbias;
};

template <typename T>
Conv2dScratch<T> ScratchOf(std::vector<T>& elems) {
  return {elems.data(), static_cast<int64_t>(elems.size())};
}

template <typename T>
Outputs<T> RunFast(ThreadPool& pool, const Conv2dShape& shape,
                   const Inputs<T>& in) {
  const Compute compute = {.pool = pool};
  // Another operator's leftovers must not matter.
  std::vector<T> scratch = Unwritten<T>(Conv2dScratchElems(compute, shape));
  Outputs<T> out(in);
  Conv2dForward<T>(compute, shape, in.x.data(), in.weight.data(),
                   in.bias.data(), ScratchOf(scratch), out.y.data());
  Conv2dBackwardParameters<T>(compute, shape, Write::kSet, in.dy.data(),
                              in.x.data(), ScratchOf(scratch),
                              out.dweight.data(), out.dbias.data());
  Conv2dBackwardInput<T>(compute, shape, in.dy.data(), in.weight.data(),
                         ScratchOf(scratch), out.dx.data());
  return out;
}

template <typename T>
Outputs<T> RunReference(const Conv2dShape& shape, const Inputs<T>& in) {
  Outputs<T> out(in);
  reference::Conv2dForward<T>(shape, in.x.data(), in.weight.data(),
                              in.bias.data(), out.y.data());
  reference::Conv2dBackwardParameters<T>(shape, in.dy.data(), in.x.data(),
                                         out.dweight.data(), out.dbias.data());
  reference::Conv2dBackwardInput<T>(shape, in.dy.data(), in.weight.data(),
                                    out.dx.data());
  return out;
}

template <typename T, typename Want>
void ExpectClose(const Outputs<T>& got, const Outputs<Want>& want,
                 double most) {
  EXPECT_LE(RelativeError(got.y, want.y), most) << "y";
  EXPECT_LE(RelativeError(got.dx, want.dx), most) << "dx";
  EXPECT_LE(RelativeError(got.dweight, want.dweight), most) << "dweight";
  EXPECT_LE(RelativeError(got.dbias, want.dbias), most) << "dbias";
}

// Channels around the widths of tiles, lines shorter and longer than a tile,
// more samples than blocks.
std::vector<Conv2dShape> Shapes() {
  return {{2, 5, 7, 1, 32, 3},  {3, 9, 10, 3, 5, 3},   {1, 1, 1, 2, 3, 3},
          {2, 2, 17, 4, 40, 5}, {37, 4, 3, 2, 33, 3},  {2, 8, 8, 16, 64, 3},
          {1, 3, 9, 31, 7, 1},  {17, 28, 28, 1, 4, 3}, {0, 4, 4, 2, 2, 3}};
}

TEST(Conv2dTest, MatchesTheReference) {
  ThreadPool pool(2);
  for (const Conv2dShape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message()
                 << shape.batch << " of " << shape.height << " x "
                 << shape.width << ", " << shape.in << " to " << shape.out);
    const Inputs<double> exact(shape);
    const Outputs<double> want = RunReference(shape, exact);
    ExpectClose(RunFast<double>(pool, shape, exact), want, 1e-13);
    ExpectClose(RunFast<float>(pool, shape, Inputs<float>(shape)), want, 2e-6);
  }
}

TEST(Conv2dTest, MatchesTheReferenceOnEveryProcessor) {
  ThreadPool pool(2);
  const Conv2dShape shape = {3, 9, 10, 3, 37, 3};
  const Outputs<double> want = RunReference(shape, Inputs<double>(shape));
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    ScopedIsaCap cap(isa);
    SCOPED_TRACE(CpuIsaName(isa));
    ExpectClose(RunFast<double>(pool, shape, Inputs<double>(shape)), want,
                1e-13);
    ExpectClose(RunFast<float>(pool, shape, Inputs<float>(shape)), want, 2e-6);
  }
}

TEST(Conv2dTest, FloatFollowsDoubleInALargeLayer) {
  ThreadPool pool(2);
  const Conv2dShape shape = {64, 14, 14, 32, 64, 3};
  ExpectClose(RunFast<float>(pool, shape, Inputs<float>(shape)),
              RunFast<double>(pool, shape, Inputs<double>(shape)), 1e-5);
}

TEST(Conv2dTest, GivesTheSameBitsForEveryPool) {
  const Conv2dShape shape = {37, 6, 9, 3, 40, 3};
  const Inputs<float> in(shape);
  ThreadPool one(1);
  const Outputs<float> want = RunFast<float>(one, shape, in);
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    const Outputs<float> got = RunFast<float>(pool, shape, in);
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_EQ(got.dweight, want.dweight);
    EXPECT_EQ(got.dbias, want.dbias);
  }
}

TEST(Conv2dTest, AddsToGradientsThatAreThere) {
  ThreadPool pool(1);
  const Conv2dShape shape = {2, 4, 5, 3, 6, 3};
  const Inputs<double> in(shape);
  const Outputs<double> set = RunFast<double>(pool, shape, in);
  std::vector<double> scratch(Conv2dScratchElems({pool}, shape));
  std::vector<double> dweight = Random<double>(set.dweight.size(), 7);
  std::vector<double> dbias = Random<double>(set.dbias.size(), 8);
  std::vector<double> want_dweight = dweight;
  std::vector<double> want_dbias = dbias;
  for (size_t i = 0; i < dweight.size(); ++i) want_dweight[i] += set.dweight[i];
  for (size_t i = 0; i < dbias.size(); ++i) want_dbias[i] += set.dbias[i];
  Conv2dBackwardParameters<double>(
      {.pool = pool}, shape, Write::kAdd, in.dy.data(), in.x.data(),
      ScratchOf(scratch), dweight.data(), dbias.data());
  EXPECT_EQ(dweight, want_dweight);
  EXPECT_EQ(dbias, want_dbias);
}

TEST(Conv2dTest, AnEmptyBatchHasZeroGradients) {
  ThreadPool pool(2);
  const Conv2dShape shape = {0, 4, 5, 3, 6, 3};
  const Outputs<float> out = RunFast<float>(pool, shape, Inputs<float>(shape));
  EXPECT_EQ(out.dweight, std::vector<float>(out.dweight.size()));
  EXPECT_EQ(out.dbias, std::vector<float>(out.dbias.size()));
}

TEST(Conv2dTest, ScratchOfALargerBatchIsEnoughForASmallerOne) {
  ThreadPool pool(1);
  for (Conv2dShape shape : Shapes()) {
    int64_t before = 0;
    for (shape.batch = 0; shape.batch < 40; ++shape.batch) {
      EXPECT_GE(Conv2dScratchElems({pool}, shape), before);
      before = Conv2dScratchElems({pool}, shape);
    }
  }
}

TEST(Conv2dTest, ANanComesThrough) {
  ThreadPool pool(1);
  const Conv2dShape shape = {1, 5, 5, 2, 3, 3};
  Inputs<float> in(shape);
  in.x[(2 * 5 + 2) * 2] = kNan;  // pixel (2,2), seen by the 9 around it
  in.dy[0] = kNan;               // pixel (0,0), channel 0
  const Outputs<float> out = RunFast<float>(pool, shape, in);
  for (int64_t pixel = 0; pixel < 25; ++pixel) {
    const bool is_near =
        std::abs(pixel / 5 - 2) <= 1 && std::abs(pixel % 5 - 2) <= 1;
    EXPECT_EQ(std::isnan(out.y[pixel * 3]), is_near) << pixel;
    EXPECT_EQ(std::isnan(out.dx[pixel * 2]), pixel / 5 <= 1 && pixel % 5 <= 1)
        << pixel;
  }
  EXPECT_TRUE(std::isnan(out.dbias[0]));
  EXPECT_FALSE(std::isnan(out.dbias[1]));
}

TEST(Conv2dTest, AllocatesNothing) {
  ThreadPool pool(2);
  const Conv2dShape shape = {5, 6, 7, 3, 9, 3};
  const Inputs<float> in(shape);
  Outputs<float> out(in);
  std::vector<float> scratch(Conv2dScratchElems({pool}, shape));
  const Compute compute = {.pool = pool};
  const int64_t before = AllocationCount();
  Conv2dForward<float>(compute, shape, in.x.data(), in.weight.data(),
                       in.bias.data(), ScratchOf(scratch), out.y.data());
  Conv2dBackwardInput<float>(compute, shape, in.dy.data(), in.weight.data(),
                             ScratchOf(scratch), out.dx.data());
  Conv2dBackwardParameters<float>(compute, shape, Write::kSet, in.dy.data(),
                                  in.x.data(), ScratchOf(scratch),
                                  out.dweight.data(), out.dbias.data());
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_GT(before, 0);
}

TEST(Conv2dTest, GradientsAreFiniteDifferences) {
  ThreadPool pool(1);
  const Conv2dShape shape = {2, 4, 5, 3, 4, 3};
  const Inputs<double> in(shape);
  const Outputs<double> out = RunFast<double>(pool, shape, in);
  const auto loss_with = [&](std::vector<double> Inputs<double>::*input) {
    return [&, input](const std::vector<double>& point) {
      Inputs<double> moved = in;
      moved.*input = point;
      return Dot(RunFast<double>(pool, shape, moved).y, in.dy);
    };
  };
  ExpectGradient(in.x, out.dx, loss_with(&Inputs<double>::x));
  ExpectGradient(in.weight, out.dweight, loss_with(&Inputs<double>::weight));
  ExpectGradient(in.bias, out.dbias, loss_with(&Inputs<double>::bias));
}

}  // namespace
}  // namespace ringmaster
