#include "worker/nn/pooling.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/reference_conv.h"

namespace ringmaster {
namespace {

template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <typename T>
struct Pooled {
  explicit Pooled(const PoolingShape& s)
      : y(s.batch * (s.height / 2) * (s.width / 2) * s.channels, kNan<T>),
        winners(y.size(), 9),
        dx(s.batch * s.height * s.width * s.channels, kNan<T>) {}

  std::vector<T> y;
  std::vector<uint8_t> winners;
  std::vector<T> dx;
};

// Few different values, so that many pixels are equal.
template <typename T>
std::vector<T> Values(size_t count, uint64_t key) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(CounterRandom(key, i) % 5) - 2;
  return values;
}

template <typename T>
Pooled<T> RunFast(ThreadPool& pool, const PoolingShape& shape) {
  Pooled<T> out(shape);
  const std::vector<T> x = Values<T>(out.dx.size(), 1);
  const std::vector<T> dy = Values<T>(out.y.size(), 2);
  MaxPoolForward<T>({.pool = pool}, shape, x.data(), out.y.data(),
                    out.winners.data());
  MaxPoolBackward<T>({.pool = pool}, shape, dy.data(), out.winners.data(),
                     out.dx.data());
  return out;
}

template <typename T>
Pooled<T> RunReference(const PoolingShape& shape) {
  Pooled<T> out(shape);
  const std::vector<T> x = Values<T>(out.dx.size(), 1);
  const std::vector<T> dy = Values<T>(out.y.size(), 2);
  reference::MaxPoolForward<T>(shape, x.data(), out.y.data(),
                               out.winners.data());
  reference::MaxPoolBackward<T>(shape, dy.data(), out.winners.data(),
                                out.dx.data());
  return out;
}

template <typename T>
void ExpectSame(const Pooled<T>& got, const Pooled<T>& want) {
  EXPECT_EQ(got.y, want.y);
  EXPECT_EQ(got.winners, want.winners);
  EXPECT_EQ(got.dx, want.dx);
}

TEST(MaxPoolTest, MatchesTheReferenceForEveryPool) {
  for (const PoolingShape& shape : std::vector<PoolingShape>{{2, 4, 6, 3},
                                                             {3, 5, 7, 1},
                                                             {1, 2, 2, 33},
                                                             {2, 3, 8, 5},
                                                             {9, 28, 28, 32},
                                                             {4, 1, 6, 2},
                                                             {4, 6, 1, 2},
                                                             {0, 4, 4, 1}}) {
    SCOPED_TRACE(testing::Message() << shape.height << " x " << shape.width
                                    << " x " << shape.channels);
    for (int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      ExpectSame(RunFast<float>(pool, shape), RunReference<float>(shape));
      ExpectSame(RunFast<double>(pool, shape), RunReference<double>(shape));
    }
  }
}

TEST(MaxPoolTest, TheFirstOfEqualPixelsWins) {
  ThreadPool pool(1);
  const std::vector<float> x = {1, 3, 3, 3};
  float y = 0;
  uint8_t winner = 9;
  MaxPoolForward<float>({.pool = pool}, {1, 2, 2, 1}, x.data(), &y, &winner);
  EXPECT_EQ(y, 3);
  EXPECT_EQ(winner, 1);
}

TEST(MaxPoolTest, ANanComesThroughFromEachOfTheFour) {
  ThreadPool pool(1);
  for (int place = 0; place < 4; ++place) {
    std::vector<float> x = {1, 5, 2, 4};
    x[place] = kNan<float>;
    float y = 0;
    uint8_t winner = 9;
    MaxPoolForward<float>({.pool = pool}, {1, 2, 2, 1}, x.data(), &y, &winner);
    EXPECT_TRUE(std::isnan(y)) << place;
    EXPECT_EQ(winner, place);
  }
}

TEST(MaxPoolTest, GradientsAreFiniteDifferences) {
  ThreadPool pool(1);
  const PoolingShape shape = {2, 5, 4, 3};
  Pooled<double> out(shape);
  std::vector<double> x(out.dx.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = UnitInterval(CounterRandom(3, i));
  const std::vector<double> dy = Values<double>(out.y.size(), 2);
  const auto loss = [&] {
    MaxPoolForward<double>({.pool = pool}, shape, x.data(), out.y.data(),
                           out.winners.data());
    double sum = 0;
    for (size_t i = 0; i < dy.size(); ++i) sum += dy[i] * out.y[i];
    return sum;
  };
  loss();
  MaxPoolBackward<double>({.pool = pool}, shape, dy.data(), out.winners.data(),
                          out.dx.data());
  constexpr double kStep = 1e-7;
  for (size_t i = 0; i < x.size(); ++i) {
    const double middle = x[i];
    x[i] = middle + kStep;
    const double above = loss();
    x[i] = middle - kStep;
    const double below = loss();
    x[i] = middle;
    EXPECT_NEAR(out.dx[i], (above - below) / (2 * kStep), 1e-6) << i;
  }
}

}  // namespace
}  // namespace ringmaster
