#include "worker/nn/embedding.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster {
namespace {

template <typename T>
class EmbeddingTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmbeddingTest, ScalarTypes);

TYPED_TEST(EmbeddingTest, MatchesReferenceWithRepeatedIds) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 2, 7, 16, 33}) {
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
      std::vector<T> gradient = Unwritten<T>(5 * dim);
      reference::EmbeddingBackward<T>(shape, ids.data(), dy.data(),
                                      gradient.data());
      got = Unwritten<T>(5 * dim);
      EmbeddingBackward<T>(OneThread(), shape, Write::kSet, ids.data(),
                           dy.data(), nullptr, got.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, gradient, "dtable set"));
      got = want = Random<T>(5 * dim, 4);
      for (size_t i = 0; i < want.size(); ++i) want[i] += gradient[i];
      EmbeddingBackward<T>(OneThread(), shape, Write::kAdd, ids.data(),
                           dy.data(), nullptr, got.data());
      ASSERT_NO_FATAL_FAILURE(ExpectClose(got, want, "dtable added to"));
    }
  }
}

TEST(EmbeddingGradientTest, MatchesFiniteDifferences) {
  const EmbeddingShape shape = {6, 4, 3};
  const std::vector<int32_t> ids = {0, 3, 3, 1, 0, 3};
  const std::vector<double> table = Random<double>(12, 1);
  const std::vector<double> dy = Random<double>(18, 2);
  std::vector<double> dtable(12);
  EmbeddingBackward<double>(OneThread(), shape, Write::kSet, ids.data(),
                            dy.data(), nullptr, dtable.data());
  ExpectGradient(table, dtable, [&](const std::vector<double>& point) {
    std::vector<double> y(18);
    EmbeddingForward<double>(OneThread(), shape, ids.data(), point.data(),
                             y.data());
    return Dot(y, dy);
  });
}

}  // namespace
}  // namespace ringmaster
