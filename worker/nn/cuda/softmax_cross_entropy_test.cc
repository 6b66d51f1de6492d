#include "worker/nn/cuda/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Chunk {
  int64_t rows;
  int64_t classes;
  int64_t stride;
  std::vector<float> logits;  // [rows,stride]
  std::vector<int32_t> targets;
};

// Logits that T holds exactly; what is behind the classes is large.
template <typename T>
Chunk RandomChunk(int64_t rows, int64_t classes, int64_t stride) {
  Chunk chunk = {rows, classes, stride,
                 RoundedTo<T>(Random<float>(rows * stride, 1, 5)),
                 RandomIds(rows, classes, 2)};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = classes; i < stride; ++i)
      chunk.logits[row * stride + i] = 1000;
  }
  return chunk;
}

struct Result {
  double loss = 0;
  int64_t correct = 0;
  std::vector<float> gradients;  // [rows,stride]
};

// From the formula, in double.
Result Reference(const Chunk& chunk, double scale, double smoothing = 0) {
  Result result;
  result.gradients.assign(chunk.logits.size(), 0.0f);
  for (int64_t row = 0; row < chunk.rows; ++row) {
    const float* const logits = chunk.logits.data() + row * chunk.stride;
    const int32_t target = chunk.targets[row];
    const double max = *std::max_element(logits, logits + chunk.classes);
    double sum = 0;
    for (int64_t i = 0; i < chunk.classes; ++i)
      sum += std::exp(logits[i] - max);
    // The first of the largest.
    result.correct +=
        std::max_element(logits, logits + chunk.classes) == logits + target;
    for (int64_t i = 0; i < chunk.classes; ++i) {
      const double probability = std::exp(logits[i] - max) / sum;
      const double wanted = (i == target ? 1 - smoothing : 0) +
                            smoothing / static_cast<double>(chunk.classes);
      if (wanted > 0)
        result.loss += wanted * (std::log(sum) - (logits[i] - max));
      result.gradients[row * chunk.stride + i] =
          static_cast<float>(scale * (probability - wanted));
    }
  }
  return result;
}

template <typename T>
class SoftmaxCrossEntropyTest : public DeviceTest {
 protected:
  static constexpr double kLossBefore = 0.5;

  Result Train(const Chunk& chunk, float scale, int64_t offset = 0,
               float smoothing = 0) {
    const auto logits = DeviceArray<T>::Of(chunk.logits, offset);
    const DeviceArray<int32_t> targets(chunk.targets);
    const DeviceArray<double> scratch(
        SoftmaxCrossEntropyScratchElems(chunk.rows));
    const DeviceArray<double> loss(std::vector<double>{kLossBefore});
    const DeviceArray<DeviceLossTerms> terms(
        std::vector<DeviceLossTerms>{{scale, smoothing}});
    SoftmaxCrossEntropyTrain<T>(this->stream(), chunk.rows, chunk.classes,
                                chunk.stride, terms.get(), targets.get(),
                                logits.get(), scratch.get(), loss.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());  // its guards
    return {loss.Read()[0] - kLossBefore, 0, logits.Floats()};
  }

  Result Predict(const Chunk& chunk, int64_t offset = 0) {
    const auto logits = DeviceArray<T>::Of(chunk.logits, offset);
    const DeviceArray<int32_t> targets(chunk.targets);
    const DeviceArray<double> scratch(
        SoftmaxCrossEntropyScratchElems(chunk.rows));
    const DeviceArray<double> loss(std::vector<double>{kLossBefore});
    const DeviceArray<int64_t> correct(std::vector<int64_t>{3});
    SoftmaxCrossEntropyPredict<T>(this->stream(), chunk.rows, chunk.classes,
                                  chunk.stride, targets.get(), logits.get(),
                                  scratch.get(), loss.get(), correct.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());
    return {loss.Read()[0] - kLossBefore, correct.Read()[0] - 3,
            logits.Floats()};
  }
};
TYPED_TEST_SUITE(SoftmaxCrossEntropyTest, ElementTypes);

TYPED_TEST(SoftmaxCrossEntropyTest, MatchesTheFormula) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 5, 300}) {
    for (int64_t classes : {1, 2, 7, 33, 64, 5003}) {
      if (rows * classes > 30000) continue;
      for (int64_t stride : {classes, (classes + 15) / 8 * 8}) {
        for (int64_t offset : {0, 1}) {
          SCOPED_TRACE(::testing::Message() << rows << "x" << classes << " of "
                                            << stride << " at " << offset);
          const Chunk chunk = RandomChunk<T>(rows, classes, stride);
          const Result want = Reference(chunk, 0.25);
          const Result trained = this->Train(chunk, 0.25f, offset);
          EXPECT_NEAR(trained.loss, want.loss, 2e-6 * (1 + want.loss));
          EXPECT_LE(RelativeError(trained.gradients, want.gradients),
                    2 * kTolerance<T>);
          const Result predicted = this->Predict(chunk, offset);
          EXPECT_NEAR(predicted.loss, want.loss, 2e-6 * (1 + want.loss));
          EXPECT_EQ(predicted.correct, want.correct);
          EXPECT_EQ(predicted.gradients, chunk.logits) << "logits are input";
        }
      }
    }
  }
}

TYPED_TEST(SoftmaxCrossEntropyTest, SmoothsLabels) {
  using T = TypeParam;
  for (int64_t classes : {1, 7, 64, 5003}) {
    for (int64_t offset : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << classes << " at " << offset);
      const Chunk chunk = RandomChunk<T>(5, classes, (classes + 15) / 8 * 8);
      const Result want = Reference(chunk, 0.25, 0.1);
      const Result got = this->Train(chunk, 0.25f, offset, 0.1f);
      EXPECT_NEAR(got.loss, want.loss, 2e-6 * (1 + want.loss));
      EXPECT_LE(RelativeError(got.gradients, want.gradients),
                2 * kTolerance<T>);
    }
  }
}

TYPED_TEST(SoftmaxCrossEntropyTest, ClearsWhatIsBehindTheClasses) {
  const Chunk chunk = RandomChunk<TypeParam>(3, 13, 24);
  const Result got = this->Train(chunk, 1.0f);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t i = 13; i < 24; ++i)
      EXPECT_EQ(got.gradients[row * 24 + i], 0.0f) << row << " " << i;
  }
}

TYPED_TEST(SoftmaxCrossEntropyTest, OfEqualLogitsTheFirstIsPredicted) {
  Chunk chunk = {3, 40, 40, std::vector<float>(3 * 40, 1.0f), {0, 1, 39}};
  EXPECT_EQ(this->Predict(chunk).correct, 1);
  chunk.logits[2 * 40 + 39] = 2;
  EXPECT_EQ(this->Predict(chunk).correct, 2);
}

TYPED_TEST(SoftmaxCrossEntropyTest, LargeLogitsDoNotOverflow) {
  Chunk chunk = {1, 64, 64, std::vector<float>(64, -32768.0f), {7}};
  chunk.logits[7] = 32768;
  EXPECT_EQ(this->Train(chunk, 1.0f).loss, 0);
  chunk.targets = {8};
  EXPECT_EQ(this->Train(chunk, 1.0f).loss, 65536);
}

TYPED_TEST(SoftmaxCrossEntropyTest, AClassThatIsRuledOutCostsNothing) {
  Chunk chunk = {1, 64, 64, std::vector<float>(64, -kInfinity), {63}};
  chunk.logits[63] = 1;
  const Result got = this->Train(chunk, 1.0f);
  EXPECT_EQ(got.loss, 0);
  EXPECT_EQ(got.gradients, std::vector<float>(64, 0.0f));
  chunk.targets = {0};
  EXPECT_EQ(this->Train(chunk, 1.0f).loss, kInfinity);
}

TYPED_TEST(SoftmaxCrossEntropyTest, NanAndInfinityMakeTheLossNotFinite) {
  for (float bad : {kNan, kInfinity}) {
    for (int64_t at : {0, 7, 8, 39, 40}) {
      for (int32_t target : {3, 40}) {
        Chunk chunk = RandomChunk<TypeParam>(2, 41, 48);
        chunk.targets = {target, target};
        chunk.logits[48 + at] = bad;
        SCOPED_TRACE(::testing::Message() << bad << " at " << at);
        EXPECT_FALSE(std::isfinite(this->Train(chunk, 1.0f).loss));
        EXPECT_FALSE(std::isfinite(this->Predict(chunk).loss));
      }
    }
  }
}

TYPED_TEST(SoftmaxCrossEntropyTest, NanIsNotPredicted) {
  Chunk chunk = {1, 9, 9, std::vector<float>(9, 0.0f), {4}};
  chunk.logits[4] = 1;
  EXPECT_EQ(this->Predict(chunk).correct, 1);
  chunk.logits[8] = kNan;
  EXPECT_EQ(this->Predict(chunk).correct, 0);
  chunk.logits[8] = 0;
  chunk.logits[4] = kNan;
  EXPECT_EQ(this->Predict(chunk).correct, 0);
}

}  // namespace
}  // namespace ringmaster::cuda
