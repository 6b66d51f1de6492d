// The operators of a GPT against their plain references, pools of several
// sizes against each other, and gradients against finite differences in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/dropout.h"
#include "worker/nn/embedding.h"
#include "worker/nn/gelu.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_gpt_ops.h"
#include "worker/nn/testing/reference_ops.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster {
namespace {

constexpr double kEpsilon = 1e-5;

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<T>& want,
                const char* what) {
  EXPECT_LE(RelativeError(got, want), sizeof(T) == sizeof(float) ? 1e-6 : 1e-14)
      << what;
}

// Inputs and outputs of the layer norm.
template <typename T>
struct LayerNormCase {
  LayerNormCase(RowShape s, double offset = 0)
      : shape(s),
        x(Random<T>(s.rows * s.dim, 1, 2)),
        delta(Random<T>(s.rows * s.dim, 2)),
        gamma(Random<T>(s.dim, 3)),
        beta(Random<T>(s.dim, 4)),
        dy(Random<T>(s.rows * s.dim, 5)),
        sum(Unwritten<T>(s.rows * s.dim)),
        y(sum),
        mean(Unwritten<T>(s.rows)),
        rstd(mean),
        dsum(Random<T>(s.rows * s.dim, 6)) {
    for (T& value : x) value += static_cast<T>(offset);
  }

  void Forward(const Compute& compute, const Dropout& dropout) {
    ResidualLayerNormForward<T>(compute, shape, x.data(), delta.data(), dropout,
                                sum.data(), gamma.data(), beta.data(), kEpsilon,
                                y.data(), mean.data(), rstd.data());
  }
  void Backward(const Compute& compute, Write write) {
    dgamma = Before<T>(write, shape.dim);
    dbeta = dgamma;
    std::vector<T> scratch =
        Unwritten<T>(LayerNormScratchElems(compute, shape));
    LayerNormBackward<T>(compute, shape, write, dy.data(), sum.data(),
                         gamma.data(), mean.data(), rstd.data(), scratch.data(),
                         dsum.data(), dgamma.data(), dbeta.data());
  }
  void ReferenceForward(const Dropout& dropout) {
    reference::ResidualLayerNormForward<T>(
        shape, x.data(), delta.data(), dropout, sum.data(), gamma.data(),
        beta.data(), kEpsilon, y.data(), mean.data(), rstd.data());
  }
  void ReferenceBackward(Write write) {
    dgamma = Before<T>(write, shape.dim);
    dbeta = dgamma;
    reference::LayerNormBackward<T>(shape, write, dy.data(), sum.data(),
                                    gamma.data(), mean.data(), rstd.data(),
                                    dsum.data(), dgamma.data(), dbeta.data());
  }
  std::vector<std::vector<T>> Outputs() const {
    return {sum, y, mean, rstd, dsum, dgamma, dbeta};
  }

  RowShape shape;
  std::vector<T> x, delta, gamma, beta, dy;
  std::vector<T> sum, y, mean, rstd, dsum, dgamma, dbeta;
};

template <typename T>
class GptOperatorTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GptOperatorTest, ScalarTypes);

TYPED_TEST(GptOperatorTest, LayerNormMatchesReference) {
  using T = TypeParam;
  const std::vector<int64_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
  for (int64_t rows : {0, 1, 7, 8, 70, 300}) {
    for (int64_t dim : {1, 3, 63, 64, 130}) {
      for (Write write : {Write::kSet, Write::kAdd}) {
        LayerNormCase<T> got({rows, dim});
        LayerNormCase<T> want({rows, dim});
        // Five samples, the last one cut short.
        const Dropout dropout = {write == Write::kSet ? 0 : 0.3, 9, ids.data(),
                                 std::max<int64_t>(1, (rows + 4) / 5) * dim};
        got.Forward(OneThread(), dropout);
        want.ReferenceForward(dropout);
        got.Backward(OneThread(), write);
        want.ReferenceBackward(write);
        for (size_t i = 0; i < got.Outputs().size(); ++i) {
          SCOPED_TRACE(::testing::Message() << rows << " " << dim << " " << i);
          // One value has variance 0, and then all is rounding.
          if (dim == 1) continue;
          ASSERT_NO_FATAL_FAILURE(
              ExpectNear(got.Outputs()[i], want.Outputs()[i], "output"));
        }
      }
    }
  }
}

TYPED_TEST(GptOperatorTest, LayerNormWithoutDeltaNormalizesX) {
  using T = TypeParam;
  LayerNormCase<T> got({5, 40});
  ResidualLayerNormForward<T>(OneThread(), got.shape, got.x.data(), nullptr, {},
                              nullptr, got.gamma.data(), got.beta.data(),
                              kEpsilon, got.y.data(), got.mean.data(),
                              got.rstd.data());
  LayerNormCase<T> want({5, 40});
  std::fill(want.delta.begin(), want.delta.end(), T{0});
  want.ReferenceForward({});
  ExpectNear(got.y, want.y, "y");
  ExpectNear(got.rstd, want.rstd, "rstd");
}

TYPED_TEST(GptOperatorTest, LayerNormOfValuesFarFromZeroIsAccurate) {
  using T = TypeParam;
  LayerNormCase<T> got({4, 100}, 1000);
  LayerNormCase<double> want({4, 100}, 1000);
  got.Forward(OneThread(), {});
  // The sum itself rounds; what follows must not add to that.
  want.sum.assign(got.sum.begin(), got.sum.end());
  want.x = want.sum;
  std::fill(want.delta.begin(), want.delta.end(), 0);
  want.ReferenceForward({});
  for (size_t i = 0; i < got.y.size(); ++i)
    EXPECT_NEAR(got.y[i], want.y[i], sizeof(T) == 4 ? 1e-4 : 1e-11);
}

TYPED_TEST(GptOperatorTest, EveryPoolGivesTheSameBits) {
  using T = TypeParam;
  const std::vector<int64_t> ids = {3, 1, 4};
  const std::vector<int32_t> tokens = RandomIds(3 * 100, 50, 1);
  std::vector<std::vector<std::vector<T>>> runs;
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const Compute compute = {.pool = pool};
    const int64_t dim = 300;
    const Dropout dropout = {0.2, 9, ids.data(), 100 * dim};
    LayerNormCase<T> norm({300, dim});
    norm.Forward(compute, dropout);
    norm.Backward(compute, Write::kSet);
    runs.push_back(norm.Outputs());
    std::vector<T> dropped = Unwritten<T>(300 * dim);
    ApplyDropout<T>(compute, dropout, 3, norm.x.data(), dropped.data());
    runs.back().push_back(dropped);
    const TokenEmbeddingShape shape = {3, 100, 50, dim};
    std::vector<T> dtokens = Unwritten<T>(50 * dim);
    std::vector<T> dpositions = Unwritten<T>(100 * dim);
    EmbeddingBackward<T>(compute, {300, 50, dim}, Write::kSet, tokens.data(),
                         norm.dy.data(), nullptr, dtokens.data());
    TokenEmbeddingBackwardPositions<T>(compute, shape, Write::kSet,
                                       norm.dy.data(), dpositions.data());
    std::vector<T> gelu = Unwritten<T>(300 * dim);
    GeluForward<T>(compute, 300 * dim, norm.x.data(), gelu.data());
    runs.back().push_back(gelu);
    GeluBackward<T>(compute, 300 * dim, norm.x.data(), norm.dy.data(),
                    gelu.data());
    runs.back().push_back(gelu);
    runs.back().push_back(dtokens);
    runs.back().push_back(dpositions);
    EXPECT_EQ(runs.back(), runs.front()) << threads;
  }
}

TYPED_TEST(GptOperatorTest, DropoutMatchesReferenceInPlaceAndNot) {
  using T = TypeParam;
  const std::vector<int64_t> ids = {3, 1, 4};
  for (double rate : {0.0, 0.1, 0.75}) {
    for (int64_t per_sample : {1, 77, 20000}) {
      const Dropout dropout = {rate, 5, ids.data(), per_sample};
      const std::vector<T> x = Random<T>(3 * per_sample, 1);
      std::vector<T> got = Unwritten<T>(3 * per_sample);
      std::vector<T> want = got;
      ApplyDropout<T>(OneThread(), dropout, 3, x.data(), got.data());
      reference::ApplyDropout<T>(dropout, 3, x.data(), want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectNear(got, want, "y"));
      std::vector<T> in_place = x;
      ApplyDropout<T>(OneThread(), dropout, 3, in_place.data(),
                      in_place.data());
      EXPECT_EQ(in_place, got);
    }
  }
}

TYPED_TEST(GptOperatorTest, DropoutTreatsASampleAlikeInAnotherPlace) {
  using T = TypeParam;
  const std::vector<int64_t> ids = {8, 3};
  const std::vector<int64_t> swapped = {3, 8};
  const std::vector<T> ones(2000, T{1});
  std::vector<T> y(2000);
  std::vector<T> z(2000);
  ApplyDropout<T>(OneThread(), {0.5, 5, ids.data(), 1000}, 2, ones.data(),
                  y.data());
  ApplyDropout<T>(OneThread(), {0.5, 5, swapped.data(), 1000}, 2, ones.data(),
                  z.data());
  EXPECT_NE(y, z);
  std::rotate(z.begin(), z.begin() + 1000, z.end());
  EXPECT_EQ(y, z);
}

TYPED_TEST(GptOperatorTest, TokenEmbeddingMatchesReferenceWithRepeatedIds) {
  using T = TypeParam;
  for (int64_t samples : {0, 1, 3}) {
    for (int64_t dim : {1, 33, 300}) {
      const TokenEmbeddingShape shape = {samples, 6, 5, dim};
      const int64_t count = samples * 6;
      const std::vector<int32_t> ids = RandomIds(count, 5, 1);
      const std::vector<T> tokens = Random<T>(5 * dim, 2);
      const std::vector<T> positions = Random<T>(6 * dim, 3);
      const std::vector<T> dy = Random<T>(count * dim, 4);
      std::vector<T> got = Unwritten<T>(count * dim);
      std::vector<T> want = got;
      TokenEmbeddingForward<T>(OneThread(), shape, ids.data(), tokens.data(),
                               positions.data(), got.data());
      reference::TokenEmbeddingForward<T>(shape, ids.data(), tokens.data(),
                                          positions.data(), want.data());
      ASSERT_NO_FATAL_FAILURE(ExpectNear(got, want, "y"));
      for (Write write : {Write::kSet, Write::kAdd}) {
        got = want = Before<T>(write, 6 * dim);
        TokenEmbeddingBackwardPositions<T>(OneThread(), shape, write, dy.data(),
                                           got.data());
        reference::TokenEmbeddingBackwardPositions<T>(shape, write, dy.data(),
                                                      want.data());
        ASSERT_NO_FATAL_FAILURE(ExpectNear(got, want, "dpositions"));
      }
    }
  }
}

TYPED_TEST(GptOperatorTest, GeluMatchesReferenceOverTheWholeRange) {
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

TYPED_TEST(GptOperatorTest, GeluIsFlatOrStraightFarFromZero) {
  using T = TypeParam;
  const std::vector<T> x = {-1e38, -1e19, -1e10, -1e3, -20,
                            20,    1e3,   1e10,  1e19, 1e38};
  const std::vector<T> dy(x.size(), T{1});
  std::vector<T> dx = Unwritten<T>(10);
  GeluBackward<T>(OneThread(), 10, x.data(), dy.data(), dx.data());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(dx[i], x[i] < 0 ? 0 : 1, 1e-20) << x[i];
}

TYPED_TEST(GptOperatorTest, GeluKeepsNan) {
  using T = TypeParam;
  std::vector<T> x(17, T{1});
  x[3] = x[16] = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> y(17);
  GeluForward<T>(OneThread(), 17, x.data(), y.data());
  for (size_t i = 0; i < 17; ++i)
    EXPECT_EQ(std::isnan(y[i]), i == 3 || i == 16) << "element " << i;
}

TYPED_TEST(GptOperatorTest, GeluBackwardWorksInPlace) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 15, 40000}) {
    const std::vector<T> x = Random<T>(count, 1, 4);
    const std::vector<T> dy = Random<T>(count, 2);
    std::vector<T> apart = Unwritten<T>(count);
    GeluBackward<T>(OneThread(), count, x.data(), dy.data(), apart.data());
    std::vector<T> in_place = dy;
    GeluBackward<T>(OneThread(), count, x.data(), in_place.data(),
                    in_place.data());
    ExpectNear(in_place, apart, "dx");
  }
}

TEST(GptOperatorPrecisionTest, FloatFollowsDouble) {
  LayerNormCase<float> fast({64, 768});
  LayerNormCase<double> exact({64, 768});
  fast.Forward(OneThread(), {});
  exact.ReferenceForward({});
  fast.Backward(OneThread(), Write::kSet);
  exact.ReferenceBackward(Write::kSet);
  const std::vector<std::vector<float>> got = fast.Outputs();
  const std::vector<std::vector<double>> want = exact.Outputs();
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(RelativeError(got[i], want[i]), 1e-5) << "output " << i;
}

TEST(GptFiniteDifferenceTest, ResidualLayerNorm) {
  const std::vector<int64_t> ids = {7, 2};
  const Dropout dropout = {0.4, 3, ids.data(), 2 * 5};
  LayerNormCase<double> run({4, 5});
  run.Forward(OneThread(), dropout);
  std::fill(run.dsum.begin(), run.dsum.end(), 0);
  run.Backward(OneThread(), Write::kSet);
  const auto loss_with =
      [&](std::vector<double> LayerNormCase<double>::*input) {
        return [&, input](const std::vector<double>& point) {
          LayerNormCase<double> moved({4, 5});
          moved.*input = point;
          moved.Forward(OneThread(), dropout);
          return Dot(moved.y, moved.dy);
        };
      };
  using Case = LayerNormCase<double>;
  ExpectGradient(run.x, run.dsum, loss_with(&Case::x));
  ExpectGradient(run.gamma, run.dgamma, loss_with(&Case::gamma));
  ExpectGradient(run.beta, run.dbeta, loss_with(&Case::beta));
  std::vector<double> ddelta(20);
  ApplyDropout<double>(OneThread(), dropout, 2, run.dsum.data(), ddelta.data());
  EXPECT_NE(ddelta, run.dsum);
  ExpectGradient(run.delta, ddelta, loss_with(&Case::delta));
}

TEST(GptFiniteDifferenceTest, Gelu) {
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

TEST(GptFiniteDifferenceTest, TokenEmbedding) {
  const TokenEmbeddingShape shape = {2, 3, 4, 3};
  const std::vector<int32_t> ids = {0, 3, 3, 1, 0, 3};
  const std::vector<double> tokens = Random<double>(12, 1);
  const std::vector<double> positions = Random<double>(9, 2);
  const std::vector<double> dy = Random<double>(18, 3);
  std::vector<double> dtokens(12);
  std::vector<double> dpositions(9);
  EmbeddingBackward<double>(OneThread(), {6, 4, 3}, Write::kSet, ids.data(),
                            dy.data(), nullptr, dtokens.data());
  TokenEmbeddingBackwardPositions<double>(OneThread(), shape, Write::kSet,
                                          dy.data(), dpositions.data());
  const auto loss = [&](const std::vector<double>& tokens,
                        const std::vector<double>& positions) {
    std::vector<double> y(18);
    TokenEmbeddingForward<double>(OneThread(), shape, ids.data(), tokens.data(),
                                  positions.data(), y.data());
    return Dot(y, dy);
  };
  ExpectGradient(tokens, dtokens, [&](const std::vector<double>& point) {
    return loss(point, positions);
  });
  ExpectGradient(positions, dpositions, [&](const std::vector<double>& point) {
    return loss(tokens, point);
  });
}

}  // namespace
}  // namespace ringmaster
