#include "worker/nn/testing/operator_testing.h"

#include "common/sync/thread_pool.h"

namespace ringmaster {

Compute OneThread() {
  static ThreadPool pool(1);
  return {.pool = pool};
}

std::vector<int32_t> RandomIds(int64_t count, int64_t bound, uint64_t key) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>(CounterRandom(key, i) %
                                  static_cast<uint64_t>(bound));
  }
  return ids;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

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

}  // namespace ringmaster
