// Helpers for tests of operators: random operands, outputs that begin
// unwritten, and comparisons.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_TESTING_OPERATOR_TESTING_H_
#define RINGMASTER_WORKER_NN_TESTING_OPERATOR_TESTING_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/plan/counter_random.h"
#include "gtest/gtest.h"
#include "worker/nn/compute.h"

namespace ringmaster {

// One thread; for the rest of the program.
Compute OneThread();

// Values in [-bound, bound) that a float holds exactly, so that float and
// double tests have the same inputs.
template <typename T>
std::vector<T> Random(int64_t count, uint64_t key, double bound = 1) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<float>(
        bound * (2 * UnitInterval(CounterRandom(key, i)) - 1)));
  }
  return values;
}

// Ids in [0, bound).
std::vector<int32_t> RandomIds(int64_t count, int64_t bound, uint64_t key);

// Outputs begin as NaN, so that an element left unwritten, or one added to
// where = is promised, shows.
template <typename T>
std::vector<T> Unwritten(int64_t count) {
  return std::vector<T>(static_cast<size_t>(count),
                        std::numeric_limits<T>::quiet_NaN());
}

// The contents of a gradient before it is written or added to.
template <typename T>
std::vector<T> Before(Write write, int64_t count) {
  return write == Write::kSet ? Unwritten<T>(count) : Random<T>(count, 77);
}

// ||got - want|| / ||want||, in the Euclidean norm; the numerator alone if
// `want` is zero, NaN if either has one.
template <typename T, typename U>
double RelativeError(const std::vector<T>& got, const std::vector<U>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

// |got - want| <= tolerance * (1 + |want|) for each element.
template <typename T>
constexpr double kElementTolerance = 2e-5;
template <>
inline constexpr double kElementTolerance<double> = 1e-12;

template <typename T>
void ExpectClose(const std::vector<T>& got, const std::vector<T>& want,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], kElementTolerance<T> * (1 + std::abs(want[i])))
        << what << ", element " << i;
  }
}

double Dot(const std::vector<double>& a, const std::vector<double>& b);

// Checks `gradient` of `loss` with respect to `point` by central differences.
void ExpectGradient(
    std::vector<double> point, const std::vector<double>& gradient,
    const std::function<double(const std::vector<double>&)>& loss);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TESTING_OPERATOR_TESTING_H_
