#include "worker/nn/classifier.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_classifier.h"

namespace ringmaster {
namespace {

// The inputs of a classifier.
template <typename T>
struct Input {
  explicit Input(HeadShape shape, double bound = 1)
      : shape(shape),
        x(Random<T>(shape.rows * shape.dim, 1, bound)),
        weight(Random<T>(shape.classes * shape.dim, 2)),
        bias(Random<T>(shape.classes, 3)),
        targets(RandomIds(shape.rows, shape.classes, 9)) {}
  HeadShape shape;
  std::vector<T> x;
  std::vector<T> weight;
  std::vector<T> bias;
  std::vector<int32_t> targets;
};

// The results of training. They begin as NaN where they are to be overwritten,
// and as numbers where they are to be added to.
template <typename T>
struct Gradients {
  Gradients(HeadShape shape, Write write)
      : dx(Unwritten<T>(shape.rows * shape.dim)),
        dweight(Before<T>(write, shape.classes * shape.dim)),
        dbias(Before<T>(write, shape.classes)) {}
  double loss = 0;
  std::vector<T> dx;
  std::vector<T> dweight;
  std::vector<T> dbias;

  bool operator==(const Gradients&) const = default;
};

template <typename T>
std::vector<T> Scratch(HeadShape shape) {
  return Unwritten<T>(ClassifierChunkRows(shape) * shape.classes);
}

enum class Bias : bool { kWithout, kWith };

template <typename T>
Gradients<T> Train(ThreadPool& pool, const Input<T>& in, double scale,
                   Write write, Bias bias,
                   Precision precision = Precision::kFloat32,
                   double smoothing = 0) {
  Gradients<T> out(in.shape, write);
  std::vector<T> scratch = Scratch<T>(in.shape);
  const bool with = bias == Bias::kWith;
  ClassifierTrain<T>({pool, precision}, in.shape, {scale, smoothing}, write,
                     in.x.data(), in.weight.data(),
                     with ? in.bias.data() : nullptr, in.targets.data(),
                     {scratch.data()}, out.dx.data(), out.dweight.data(),
                     with ? out.dbias.data() : nullptr, &out.loss);
  return out;
}

template <typename T>
Gradients<T> TrainPlain(const Input<T>& in, double scale, Write write,
                        Bias bias, double smoothing = 0) {
  Gradients<T> out(in.shape, write);
  const bool with = bias == Bias::kWith;
  out.loss = reference::ClassifierTrain<T>(
      in.shape, scale, write, in.x.data(), in.weight.data(),
      with ? in.bias.data() : nullptr, in.targets.data(), out.dx.data(),
      out.dweight.data(), with ? out.dbias.data() : nullptr, smoothing);
  return out;
}

template <typename T>
reference::ClassifierResult Predict(ThreadPool& pool, const Input<T>& in) {
  std::vector<T> scratch = Scratch<T>(in.shape);
  reference::ClassifierResult result;
  result.outcomes.resize(static_cast<size_t>(in.shape.rows));
  ClassifierPredict<T>({pool}, in.shape, in.x.data(), in.weight.data(),
                       in.bias.data(), in.targets.data(), {scratch.data()},
                       &result.loss_sum, &result.correct,
                       result.outcomes.data());
  return result;
}

template <typename T, typename U>
void ExpectClose(const Gradients<T>& got, const Gradients<U>& want, Bias bias,
                 double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * (1 + want.loss));
  EXPECT_LE(RelativeError(got.dx, want.dx), tolerance) << "dx";
  EXPECT_LE(RelativeError(got.dweight, want.dweight), tolerance) << "dweight";
  if (bias == Bias::kWith) {
    EXPECT_LE(RelativeError(got.dbias, want.dbias), tolerance) << "dbias";
  }
}

template <typename T>
class ClassifierOperatorTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ClassifierOperatorTest, ScalarTypes);

TYPED_TEST(ClassifierOperatorTest, MatchesReferenceForAllShapes) {
  using T = TypeParam;
  ThreadPool pool(2);
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;
  for (const int64_t rows : {1, 5, 33}) {
    for (const int64_t classes : {2, 15, 16, 17, 31, 33, 256, 2500}) {
      for (const double bound : {0.1, 30.0}) {
        for (const Write write : {Write::kSet, Write::kAdd}) {
          for (const Bias bias : {Bias::kWithout, Bias::kWith}) {
            SCOPED_TRACE(testing::Message()
                         << rows << " rows, " << classes << " classes, bound "
                         << bound << (write == Write::kAdd ? ", add" : "")
                         << (bias == Bias::kWith ? ", bias" : ""));
            const Input<T> in({rows, 6, classes}, bound);
            ExpectClose(Train(pool, in, 0.5, write, bias),
                        TrainPlain(in, 0.5, write, bias), bias, tolerance);
          }
        }
      }
    }
  }
}

TYPED_TEST(ClassifierOperatorTest, MatchesReferenceWithSeveralChunks) {
  using T = TypeParam;
  ThreadPool pool(2);
  const Input<T> in({2100, 3, 11});
  ASSERT_LT(ClassifierChunkRows(in.shape), in.shape.rows);
  for (const Write write : {Write::kSet, Write::kAdd}) {
    ExpectClose(Train(pool, in, 0.1, write, Bias::kWith),
                TrainPlain(in, 0.1, write, Bias::kWith), Bias::kWith,
                std::is_same_v<T, float> ? 1e-5 : 1e-12);
  }
}

TYPED_TEST(ClassifierOperatorTest, MatchesReferenceWithSmoothing) {
  using T = TypeParam;
  ThreadPool pool(2);
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;
  for (const int64_t classes : {1, 2, 31, 33, 2500}) {
    for (const double smoothing : {0.1, 0.9}) {
      SCOPED_TRACE(testing::Message() << classes << ", " << smoothing);
      const Input<T> in({33, 6, classes}, 3);
      ExpectClose(Train(pool, in, 0.5, Write::kAdd, Bias::kWith,
                        Precision::kFloat32, smoothing),
                  TrainPlain(in, 0.5, Write::kAdd, Bias::kWith, smoothing),
                  Bias::kWith, tolerance);
    }
  }
}

// PyTorch's CrossEntropyLoss(label_smoothing=0.1, reduction="sum") for logits 1, 2
// and 0.5 and target 1: with the loss l = ln(e + e^2 + e^0.5) - logit of
// each class, 0.9 of the target's and 0.1 / 3 of each one's; the gradient is the
// softmax less the same shares.
TEST(ClassifierTest, SmoothsLabelsAsPyTorchDoes) {
  ThreadPool pool(1);
  Input<double> in({1, 1, 3});
  in.x = {1};
  in.weight = {1, 2, 0.5};
  in.bias = {0, 0, 0};
  in.targets = {1};
  const Gradients<double> got =
      Train(pool, in, 1, Write::kSet, Bias::kWith, Precision::kFloat32, 0.1);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(0.5);
  const double log_sum = std::log(sum);
  EXPECT_NEAR(got.loss, 0.9 * (log_sum - 2) + 0.1 / 3 * (3 * log_sum - 3.5),
              1e-14);
  EXPECT_NEAR(got.dbias[0], std::exp(1.0) / sum - 0.1 / 3, 1e-14);
  EXPECT_NEAR(got.dbias[1], std::exp(2.0) / sum - 0.9 - 0.1 / 3, 1e-14);
  EXPECT_NEAR(got.dbias[2], std::exp(0.5) / sum - 0.1 / 3, 1e-14);
}

TEST(ClassifierTest, MatchesReferenceOnEveryInstructionSet) {
  ThreadPool pool(1);
  const Input<float> in({7, 5, 1037}, 3);
  const Gradients<float> want = TrainPlain(in, 1, Write::kSet, Bias::kWith);
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    const ScopedIsaCap cap(isa);
    SCOPED_TRACE(CpuIsaName(CurrentIsa()));
    ExpectClose(Train(pool, in, 1, Write::kSet, Bias::kWith), want, Bias::kWith,
                1e-5);
  }
}

TEST(ClassifierTest, BFloat16IsCloseToFloat) {
  ThreadPool pool(1);
  const Input<float> in({48, 64, 300}, 0.5);
  const Gradients<float> got =
      Train(pool, in, 1, Write::kSet, Bias::kWith, Precision::kBFloat16);
  const Gradients<float> want = Train(pool, in, 1, Write::kSet, Bias::kWith);
  ExpectClose(got, want, Bias::kWith, 0.02);
  EXPECT_GT(RelativeError(got.dweight, want.dweight), 1e-5);
}

TEST(ClassifierTest, GradientsMatchFiniteDifferences) {
  ThreadPool pool(1);
  Input<double> in({4, 5, 9});
  constexpr double kScale = 0.25;
  const Gradients<double> gradients =
      Train(pool, in, kScale, Write::kSet, Bias::kWith);
  const auto check = [&](std::vector<double>& values,
                         const std::vector<double>& gradient,
                         const char* what) {
    constexpr double kStep = 1e-5;
    for (size_t i = 0; i < values.size(); ++i) {
      const double before = values[i];
      values[i] = before + kStep;
      const double above = Predict(pool, in).loss_sum;
      values[i] = before - kStep;
      const double below = Predict(pool, in).loss_sum;
      values[i] = before;
      ASSERT_NEAR(gradient[i], kScale * (above - below) / (2 * kStep), 1e-9)
          << what << " " << i;
    }
  };
  check(in.x, gradients.dx, "x");
  check(in.weight, gradients.dweight, "weight");
  check(in.bias, gradients.dbias, "bias");
}

TEST(ClassifierTest, SmoothedGradientsMatchFiniteDifferences) {
  ThreadPool pool(1);
  Input<double> in({4, 5, 9});
  const auto train = [&] {
    return Train(pool, in, 1, Write::kSet, Bias::kWith, Precision::kFloat32,
                 0.2);
  };
  const Gradients<double> gradients = train();
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < in.weight.size(); ++i) {
    const double before = in.weight[i];
    in.weight[i] = before + kStep;
    const double above = train().loss;
    in.weight[i] = before - kStep;
    const double below = train().loss;
    in.weight[i] = before;
    ASSERT_NEAR(gradients.dweight[i], (above - below) / (2 * kStep), 1e-9) << i;
  }
}

TEST(ClassifierTest, PredictHasTheLossOfTrainAndCounts) {
  ThreadPool pool(2);
  const Input<float> in({1500, 4, 7});
  const reference::ClassifierResult result = Predict(pool, in);
  const reference::ClassifierResult want = reference::ClassifierPredict<float>(
      in.shape, in.x.data(), in.weight.data(), in.bias.data(),
      in.targets.data());
  EXPECT_EQ(result.loss_sum, Train(pool, in, 1, Write::kSet, Bias::kWith).loss);
  EXPECT_NEAR(result.loss_sum, want.loss_sum, 1e-5 * want.loss_sum);
  EXPECT_EQ(result.correct, want.correct);
  for (size_t i = 0; i < want.outcomes.size(); ++i) {
    EXPECT_EQ(result.outcomes[i].predicted, want.outcomes[i].predicted) << i;
    EXPECT_EQ(result.outcomes[i].rivals, want.outcomes[i].rivals) << i;
  }
  EXPECT_GT(result.correct, 0);
  EXPECT_LT(result.correct, 1500);
}

TEST(ClassifierTest, OfEqualLogitsTheFirstIsPredicted) {
  ThreadPool pool(1);
  Input<float> in({40, 1, 40});
  std::fill(in.weight.begin(), in.weight.end(), 0.0f);
  std::fill(in.bias.begin(), in.bias.end(), 1.0f);
  for (int32_t i = 0; i < 40; ++i) in.targets[i] = i;
  EXPECT_EQ(Predict(pool, in).correct, 1);
  EXPECT_EQ(Predict(pool, in).outcomes[7].predicted, 0);
  EXPECT_EQ(Predict(pool, in).outcomes[7].rivals, 7);
  in.bias[0] = 0;
  EXPECT_EQ(Predict(pool, in).correct, 1);
  in.bias[39] = 2;
  EXPECT_EQ(Predict(pool, in).correct, 1);
}

TEST(ClassifierTest, EqualLogitsCostTheLogarithmOfTheClasses) {
  ThreadPool pool(1);
  Input<float> in({3, 2, 50257});
  std::fill(in.weight.begin(), in.weight.end(), 0.0f);
  std::fill(in.bias.begin(), in.bias.end(), -7.0f);
  EXPECT_NEAR(Predict(pool, in).loss_sum, 3 * std::log(50257.0), 1e-5);
}

TEST(ClassifierTest, LogitsThatAreNotFiniteMakeTheLossNotFinite) {
  ThreadPool pool(1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const int64_t classes : {1, 5, 33, 3000}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      for (const int64_t at : {int64_t{0}, classes / 2, classes - 1}) {
        Input<float> in({2, 3, classes});
        in.bias[at] = bad;
        EXPECT_FALSE(std::isfinite(Predict(pool, in).loss_sum)) << at;
        EXPECT_FALSE(
            std::isfinite(Train(pool, in, 1, Write::kSet, Bias::kWith).loss))
            << at;
      }
    }
  }
  // A class of no probability is fine, unless it is the target.
  Input<float> in({2, 3, 5});
  in.targets = {1, 2};
  in.bias[4] = -kInf;
  EXPECT_TRUE(std::isfinite(Predict(pool, in).loss_sum));
  in.bias[2] = -kInf;
  EXPECT_FALSE(std::isfinite(Predict(pool, in).loss_sum));
}

TEST(ClassifierTest, IsTheSameForEveryPool) {
  const Input<float> in({1100, 8, 300});
  ThreadPool one(1);
  const Gradients<float> want = Train(one, in, 1, Write::kSet, Bias::kWith);
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(Train(pool, in, 1, Write::kSet, Bias::kWith) == want);
    EXPECT_EQ(Predict(pool, in).loss_sum, want.loss);
  }
}

TEST(ClassifierTest, NoRowsGiveNoGradients) {
  ThreadPool pool(1);
  const Input<float> in({0, 2, 3});
  const Gradients<float> set = Train(pool, in, 1, Write::kSet, Bias::kWith);
  EXPECT_EQ(set.loss, 0);
  EXPECT_EQ(set.dweight, std::vector<float>(6, 0.0f));
  EXPECT_EQ(set.dbias, std::vector<float>(3, 0.0f));
  EXPECT_TRUE(Train(pool, in, 1, Write::kAdd, Bias::kWith) ==
              Gradients<float>(in.shape, Write::kAdd));
  EXPECT_EQ(Predict(pool, in).correct, 0);
}

TEST(ClassifierTest, ChunksAreBoundedAndGrowWithTheRows) {
  EXPECT_EQ(ClassifierChunkRows({0, 8, 10}), 0);
  EXPECT_EQ(ClassifierChunkRows({5, 8, 10}), 5);
  EXPECT_EQ(ClassifierChunkRows({5000, 8, 256}), 1024);
  EXPECT_EQ(ClassifierChunkRows({200, 768, 50257}), 200);
  EXPECT_EQ(ClassifierChunkRows({4096, 768, 50257}), 256);
  EXPECT_EQ(ClassifierChunkRows({4096, 768, 10000}), 419);
}

TEST(ClassifierTest, AllocatesNothing) {
  ThreadPool pool(2);
  const Input<float> in({40, 16, 100});
  Gradients<float> out(in.shape, Write::kSet);
  std::vector<float> scratch = Scratch<float>(in.shape);
  double loss_sum = 0;
  int64_t correct = 0;
  const auto step = [&] {
    ClassifierTrain<float>({pool}, in.shape, {}, Write::kSet, in.x.data(),
                           in.weight.data(), in.bias.data(), in.targets.data(),
                           {scratch.data()}, out.dx.data(), out.dweight.data(),
                           out.dbias.data(), &loss_sum);
    ClassifierPredict<float>({pool}, in.shape, in.x.data(), in.weight.data(),
                             in.bias.data(), in.targets.data(),
                             {scratch.data()}, &loss_sum, &correct);
  };
  step();
  const int64_t before = AllocationCount();
  step();
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace ringmaster
