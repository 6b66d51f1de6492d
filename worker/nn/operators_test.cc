// Each fast operator against its plain reference, and the references' gradients
// against finite differences in double.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/reference_ops.h"

namespace ringmaster {
namespace {

Compute OneThread() {
  static ThreadPool pool(1);
  return {.pool = pool};
}

// |a - b| <= kAbsolute + kRelative * |b|.
template <typename T>
struct Tolerance;
template <>
struct Tolerance<float> {
  static constexpr double kAbsolute = 2e-5;
  static constexpr double kRelative = 2e-5;
};
template <>
struct Tolerance<double> {
  static constexpr double kAbsolute = 1e-12;
  static constexpr double kRelative = 1e-12;
};

template <typename T>
std::vector<T> Random(int64_t count, uint64_t key, double bound = 1) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<T>(bound * (2 * UnitInterval(CounterRandom(key, i)) - 1));
  }
  return values;
}

std::vector<int32_t> RandomIds(int64_t count, int64_t bound, uint64_t key) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    ids[i] = static_cast<int32_t>(CounterRandom(key, i) % bound);
  return ids;
}

template <typename T>
void ExpectClose(const std::vector<T>& got, const std::vector<T>& want,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(
        got[i], want[i],
        Tolerance<T>::kAbsolute + Tolerance<T>::kRelative * std::abs(want[i]))
        << what << ", element " << i;
  }
}

// Output arrays begin as NaN, so that an element left unwritten, or one added
// to (+= where = is promised), shows.
template <typename T>
std::vector<T> Unwritten(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count),
                        std::numeric_limits<T>::quiet_NaN());
}

template <typename T>
class OperatorTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(OperatorTest, ScalarTypes);

constexpr int64_t kSizes[] = {0, 1, 2, 7, 16, 33};

TYPED_TEST(OperatorTest, EmbeddingMatchesReferenceWithRepeatedIds) {
  using T = TypeParam;
  for (int64_t count : kSizes) {
    for (int64_t dim : {1, 8, 33}) {
      const EmbeddingShape shape = {count, 5, dim};
      const std::vector<int32_t> ids = RandomIds(count, 5, 1);
      const std::vector<T> table = Random<T>(5 * dim, 2);
      const std::vector<T> dy = Random<T>(count * dim, 3);
      std::vector<T> got = Unwritten<T>(count * dim);
      std::vector<T> want = got;
      EmbeddingForward<T>(OneThread(), shape, ids.data(), table.data(),
                          got.data());
      reference::EmbeddingForward<T>(shape, ids.data(), table.data(),
                                     want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "y"));
      got = want = Unwritten<T>(5 * dim);
      EmbeddingBackward<T>(OneThread(), shape, Write::kSet, ids.data(),
                           dy.data(), got.data());
      reference::EmbeddingBackward<T>(shape, ids.data(), dy.data(),
                                      want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "dtable"));
    }
  }
}

TYPED_TEST(OperatorTest, GeluMatchesReferenceOverTheWholeRange) {
  using T = TypeParam;
  for (double bound : {0.01, 1.0, 5.0, 50.0}) {
    for (int64_t count : {0, 1, 7, 8, 9, 1003}) {
      const std::vector<T> x = Random<T>(count, 1, bound);
      const std::vector<T> dy = Random<T>(count, 2);
      std::vector<T> got = Unwritten<T>(count);
      std::vector<T> want = got;
      GeluForward<T>(OneThread(), count, x.data(), got.data());
      reference::GeluForward<T>(count, x.data(), want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "y"));
      GeluBackward<T>(OneThread(), count, x.data(), dy.data(), got.data());
      reference::GeluBackward<T>(count, x.data(), dy.data(), want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "dx"));
    }
  }
}

TYPED_TEST(OperatorTest, GeluKeepsNan) {
  using T = TypeParam;
  std::vector<T> x(17, T{1});
  x[3] = x[16] = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> y(17);
  GeluForward<T>(OneThread(), 17, x.data(), y.data());
  for (size_t i = 0; i < 17; ++i)
    EXPECT_EQ(std::isnan(y[i]), i == 3 || i == 16) << "element " << i;
}

// Checks `gradient` of `loss` with respect to `point` by central differences.
void ExpectGradient(
    std::vector<double> point, const std::vector<double>& gradient,
    const std::function<double(const std::vector<double>&)>& loss) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(point.size(), gradient.size());
  for (size_t i = 0; i < point.size(); ++i) {
    const double middle = point[i];
    point[i] = middle + kStep;
    const double above = loss(point);
    point[i] = middle - kStep;
    const double below = loss(point);
    point[i] = middle;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep),
                1e-8 * (1 + std::abs(gradient[i])))
        << "element " << i;
  }
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(FiniteDifferenceTest, Gelu) {
  const std::vector<double> x = Random<double>(40, 1, 4);
  const std::vector<double> dy = Random<double>(40, 2);
  std::vector<double> dx(40);
  GeluBackward<double>(OneThread(), 40, x.data(), dy.data(), dx.data());
  ExpectGradient(x, dx, [&](const std::vector<double>& point) {
    std::vector<double> y(40);
    GeluForward<double>(OneThread(), 40, point.data(), y.data());
    return Dot(y, dy);
  });
}

TEST(FiniteDifferenceTest, Embedding) {
  const EmbeddingShape shape = {6, 4, 3};
  const std::vector<int32_t> ids = {0, 3, 3, 1, 0, 3};
  const std::vector<double> table = Random<double>(12, 1);
  const std::vector<double> dy = Random<double>(18, 2);
  std::vector<double> dtable(12);
  EmbeddingBackward<double>(OneThread(), shape, Write::kSet, ids.data(),
                            dy.data(), dtable.data());
  ExpectGradient(table, dtable, [&](const std::vector<double>& point) {
    std::vector<double> y(18);
    EmbeddingForward<double>(OneThread(), shape, ids.data(), point.data(),
                             y.data());
    return Dot(y, dy);
  });
}

}  // namespace
}  // namespace ringmaster
