#include "worker/nn/cuda/classifier.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/classifier_scratch.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_classifier.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
struct Inputs {
  explicit Inputs(HeadShape shape)
      : x(RoundedTo<T>(Random<float>(shape.rows * shape.dim, 1))),
        weight(RoundedTo<T>(Random<float>(shape.classes * shape.dim, 2))),
        bias(RoundedTo<T>(Random<float>(shape.classes, 3))),
        targets(RandomIds(shape.rows, shape.classes, 4)) {}
  std::vector<float> x;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<int32_t> targets;
};

struct Outputs {
  double loss = 0;
  std::vector<float> dx;
  std::vector<float> dweight;
  std::vector<float> dbias;

  bool operator==(const Outputs&) const = default;
};

constexpr double kScale = 0.125;
constexpr double kLossBefore = 1.5;

template <typename T>
class ClassifierTest : public MatmulDeviceTest {
 protected:
  // Arrays in device memory for one call.
  struct Arrays {
    Arrays(HeadShape shape, int64_t chunk_rows, const Inputs<T>& in)
        : x(DeviceArray<T>::Of(in.x)),
          weight(DeviceArray<T>::Of(in.weight)),
          bias(DeviceArray<T>::Of(in.bias)),
          targets(in.targets),
          logits(ClassifierLogitElems(shape, chunk_rows)),
          sums(ClassifierSumElems(chunk_rows)),
          loss(std::vector<double>{kLossBefore}) {}
    const DeviceArray<T> x, weight, bias;
    const DeviceArray<int32_t> targets;
    const DeviceArray<T> logits;
    const DeviceArray<double> sums;
    const DeviceArray<double> loss;
  };

  Outputs Train(HeadShape shape, int64_t chunk_rows, bool has_bias, Write write,
                const Inputs<T>& in, float smoothing = 0) {
    const Arrays arrays(shape, chunk_rows, in);
    const DeviceArray<T> dx(shape.rows * shape.dim);
    const auto dweight =
        DeviceArray<float>::Of(Before<float>(write, shape.classes * shape.dim));
    const auto dbias =
        DeviceArray<float>::Of(Before<float>(write, shape.classes));
    const DeviceArray<DeviceLossTerms> terms(
        std::vector<DeviceLossTerms>{{kScale, smoothing}});
    ClassifierTrain<T>(
        this->compute(), shape, terms.get(), write, arrays.x.get(),
        arrays.weight.get(), has_bias ? arrays.bias.get() : nullptr,
        arrays.targets.get(),
        {chunk_rows, arrays.logits.get(), arrays.sums.get()}, dx.get(),
        dweight.get(), has_bias ? dbias.get() : nullptr, arrays.loss.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(arrays.logits.Read());  // its guards
    static_cast<void>(arrays.sums.Read());
    return {arrays.loss.Read()[0] - kLossBefore, dx.Floats(), dweight.Floats(),
            has_bias ? dbias.Floats() : std::vector<float>()};
  }
  static Outputs Reference(HeadShape shape, bool has_bias, Write write,
                           const Inputs<T>& in, double smoothing = 0) {
    Outputs out;
    out.dx = Unwritten<float>(shape.rows * shape.dim);
    out.dweight = Before<float>(write, shape.classes * shape.dim);
    if (has_bias) out.dbias = Before<float>(write, shape.classes);
    out.loss = reference::ClassifierTrain<float>(
        shape, kScale, write, in.x.data(), in.weight.data(),
        has_bias ? in.bias.data() : nullptr, in.targets.data(), out.dx.data(),
        out.dweight.data(), has_bias ? out.dbias.data() : nullptr, smoothing);
    return out;
  }
};
TYPED_TEST_SUITE(ClassifierTest, ElementTypes);

// Logits are rounded to T, and so are their gradients.
template <typename T>
constexpr double kMost = 4 * kTolerance<T>;

TYPED_TEST(ClassifierTest, TrainMatchesReference) {
  using T = TypeParam;
  for (const HeadShape shape : {HeadShape{1, 1, 1}, HeadShape{70, 6, 10},
                                HeadShape{130, 8, 33}, HeadShape{5, 16, 300}}) {
    const Inputs<T> in(shape);
    for (const int64_t chunk_rows : {shape.rows, (shape.rows + 1) / 2}) {
      for (const bool has_bias : {false, true}) {
        for (const Write write : {Write::kSet, Write::kAdd}) {
          const Outputs got =
              this->Train(shape, chunk_rows, has_bias, write, in);
          const Outputs want = this->Reference(shape, has_bias, write, in);
          SCOPED_TRACE(testing::Message()
                       << shape.rows << " rows in chunks of " << chunk_rows
                       << ", " << shape.classes << " classes");
          EXPECT_NEAR(got.loss, want.loss, kMost<T> * want.loss);
          EXPECT_LE(RelativeError(got.dx, want.dx), kMost<T>) << "dx";
          EXPECT_LE(RelativeError(got.dweight, want.dweight), kMost<T>);
          EXPECT_LE(RelativeError(got.dbias, want.dbias), kMost<T>) << "dbias";
        }
      }
    }
  }
}

TYPED_TEST(ClassifierTest, TrainMatchesReferenceWithSmoothing) {
  using T = TypeParam;
  const HeadShape shape = {70, 8, 33};
  const Inputs<T> in(shape);
  const Outputs got = this->Train(shape, 64, true, Write::kSet, in, 0.25f);
  const Outputs want = this->Reference(shape, true, Write::kSet, in, 0.25);
  EXPECT_NEAR(got.loss, want.loss, kMost<T> * want.loss);
  EXPECT_LE(RelativeError(got.dx, want.dx), kMost<T>);
  EXPECT_LE(RelativeError(got.dweight, want.dweight), kMost<T>);
  EXPECT_LE(RelativeError(got.dbias, want.dbias), kMost<T>);
}

TYPED_TEST(ClassifierTest, PredictMatchesReference) {
  using T = TypeParam;
  const HeadShape shape = {130, 12, 9};
  const Inputs<T> in(shape);
  const reference::ClassifierResult want = reference::ClassifierPredict<float>(
      shape, in.x.data(), in.weight.data(), in.bias.data(), in.targets.data());
  for (const int64_t chunk_rows : {130, 64, 7}) {
    const typename TestFixture::Arrays arrays(shape, chunk_rows, in);
    const DeviceArray<int64_t> correct(std::vector<int64_t>{5});
    const DeviceArray<ClassOutcome> outcomes(std::vector<ClassOutcome>(130));
    ClassifierPredict<T>(this->compute(), shape, arrays.x.get(),
                         arrays.weight.get(), arrays.bias.get(),
                         arrays.targets.get(),
                         {chunk_rows, arrays.logits.get(), arrays.sums.get()},
                         arrays.loss.get(), correct.get(), outcomes.get());
    ASSERT_TRUE(this->Finish());
    const std::vector<ClassOutcome> found = outcomes.Read();
    int others = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      others += found[i].predicted != want.outcomes[i].predicted ? 1 : 0;
      others += found[i].rivals != want.outcomes[i].rivals ? 1 : 0;
    }
    EXPECT_LE(others, sizeof(T) == sizeof(float) ? 0 : 12);
    EXPECT_NEAR(arrays.loss.Read()[0] - kLossBefore, want.loss_sum,
                kMost<T> * want.loss_sum);
    // Rounding may make two logits equal.
    EXPECT_NEAR(static_cast<double>(correct.Read()[0] - 5),
                static_cast<double>(want.correct),
                sizeof(T) == sizeof(float) ? 0 : 1);
  }
}

TYPED_TEST(ClassifierTest, NoRowsAreFine) {
  using T = TypeParam;
  const HeadShape shape = {0, 3, 4};
  const Inputs<T> in(shape);
  const Outputs set = this->Train(shape, 1, true, Write::kSet, in);
  EXPECT_EQ(set.loss, 0);
  EXPECT_EQ(set.dweight, std::vector<float>(12, 0));
  EXPECT_EQ(set.dbias, std::vector<float>(4, 0));
  EXPECT_EQ(this->Train(shape, 1, true, Write::kAdd, in).dweight,
            Before<float>(Write::kAdd, 12));
}

TYPED_TEST(ClassifierTest, IsTheSameEachTime) {
  const HeadShape shape = {70, 8, 20};
  const Inputs<TypeParam> in(shape);
  EXPECT_TRUE(this->Train(shape, 32, true, Write::kSet, in) ==
              this->Train(shape, 32, true, Write::kSet, in));
}

TYPED_TEST(ClassifierTest, WhatIsNotANumberShowsInTheLoss) {
  const HeadShape shape = {3, 4, 5};
  Inputs<TypeParam> in(shape);
  in.x[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(
      std::isfinite(this->Train(shape, 3, true, Write::kSet, in).loss));
}

TEST(ClassifierChunkTest, MoreRowsNeverHaveSmallerChunks) {
  for (const int64_t classes : {10, 50257, 1'000'000}) {
    int64_t before = 0;
    for (const int64_t rows : {0, 1, 100, 256, 5000, 100'000}) {
      const int64_t chunk = LogitChunkRows({rows, 768, classes});
      EXPECT_LE(before, chunk);
      EXPECT_LE(chunk, rows);
      before = chunk;
    }
  }
  EXPECT_EQ(LogitChunkRows({1 << 20, 768, 50257}), 21362);
  EXPECT_EQ(ClassifierLogitElems({1 << 20, 768, 50257}, 21362),
            int64_t{21362} * 50264);
}

using ClassifierScratchTest = MatmulDeviceTest;

TEST_F(ClassifierScratchTest, ModelsTakeScratchForChunksOfThatSize) {
  const HeadShape gpt2 = {64 * 1024, 768, 50304};
  BufferCutter counter(nullptr);
  const auto scratch =
      TakeClassifierScratch<__nv_bfloat16>(compute(), gpt2, counter);
  EXPECT_EQ(scratch.chunk_rows, LogitChunkRows(gpt2));
  EXPECT_GT(scratch.chunk_rows, 16384);
  EXPECT_GE(counter.taken(), scratch.chunk_rows * 50304 * 2);
}

}  // namespace
}  // namespace ringmaster::cuda
