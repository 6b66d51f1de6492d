#include "worker/nn/relu.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_conv.h"

namespace ringmaster {
namespace {

// Some of them zero.
template <typename T>
std::vector<T> RandomWithZeros(int64_t count, uint64_t key) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = CounterRandom(key, i);
    values[i] = bits % 7 == 0 ? 0 : static_cast<T>(2 * UnitInterval(bits) - 1);
  }
  return values;
}

template <typename T>
void ExpectReference(ThreadPool& pool, int64_t count) {
  const Compute compute = {.pool = pool};
  std::vector<T> y = RandomWithZeros<T>(count, 1);
  std::vector<T> want_y = y;
  ReluForward<T>(compute, count, y.data());
  reference::ReluForward<T>(count, want_y.data());
  EXPECT_EQ(y, want_y);

  const std::vector<T> dy = RandomWithZeros<T>(count, 2);
  std::vector<T> dx = Unwritten<T>(count);
  std::vector<T> want_dx = dx;
  ReluBackward<T>(compute, count, y.data(), dy.data(), dx.data());
  reference::ReluBackward<T>(count, y.data(), dy.data(), want_dx.data());
  EXPECT_EQ(dx, want_dx);
  std::vector<T> in_place = dy;
  ReluBackward<T>(compute, count, y.data(), in_place.data(), in_place.data());
  EXPECT_EQ(in_place, want_dx);
}

TEST(ReluTest, MatchesTheReferenceForEveryPool) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 33, 50000}) {
      ExpectReference<float>(pool, count);
      ExpectReference<double>(pool, count);
    }
  }
}

TEST(ReluTest, GradientsAreFiniteDifferences) {
  const std::vector<double> x = {-2, -0.5, 0.25, 3};
  const std::vector<double> dy = {1, 2, 3, 4};
  const auto forward = [](std::vector<double> y) {
    ReluForward<double>(OneThread(), 4, y.data());
    return y;
  };
  const std::vector<double> y = forward(x);
  std::vector<double> dx = Unwritten<double>(4);
  ReluBackward<double>(OneThread(), 4, y.data(), dy.data(), dx.data());
  ExpectGradient(x, dx, [&](const std::vector<double>& point) {
    return Dot(forward(point), dy);
  });
}

TEST(ReluTest, ANanComesThrough) {
  ThreadPool pool(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y = {-1, nan, 2, nan, -3};
  ReluForward<float>({.pool = pool}, 5, y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[3]));
  std::vector<float> dx = {1, 2, nan, 4, 5};
  ReluBackward<float>({.pool = pool}, 5, y.data(), dx.data(), dx.data());
  EXPECT_EQ(dx[0], 0);
  EXPECT_EQ(dx[1], 2);
  EXPECT_TRUE(std::isnan(dx[2]));
}

}  // namespace
}  // namespace ringmaster
