#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/nn/allocation_counter.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

constexpr int64_t kWindow = 3;

ModelConfig MlpConfig(double window, double embedding_dim, double hidden_dim,
                      double hidden_layers) {
  return {.kind = "mlp",
          .settings = {{"window", {window}},
                       {"embedding_dim", {embedding_dim}},
                       {"hidden_dim", {hidden_dim}},
                       {"hidden_layers", {hidden_layers}}}};
}

const ModelConfig kSmall = MlpConfig(kWindow, 4, 10, 2);

class RecordOrder final : public GradientObserver {
 public:
  RecordOrder() { order.reserve(100); }
  void OnTensorDone(int tensor_index) override {
    order.push_back(tensor_index);
  }
  std::vector<int> order;
};

Batch RandomBatch(int64_t size, int64_t window, uint64_t key) {
  Batch batch(size, {.tokens = window});
  batch.Resize(size);
  for (int64_t i = 0; i < size * window; ++i) {
    batch.mutable_inputs()[i] =
        static_cast<int32_t>(CounterRandom(key, i) % 256);
  }
  for (int64_t i = 0; i < size; ++i) {
    batch.mutable_targets()[i] =
        static_cast<int32_t>(CounterRandom(key + 1, i) % 256);
  }
  return batch;
}

// A model with the arenas that it works on.
template <typename T>
struct Instance {
  explicit Instance(const ModelConfig& config = kSmall, int64_t max_batch = 8)
      : model(*CreateModel<T>(config, {.pool = pool}, max_batch)),
        plan(*Plan::Create(config.kind, model->specs(), {})),
        parameters(static_cast<size_t>(plan.total_elems())),
        gradients(parameters.size(), std::numeric_limits<T>::quiet_NaN()) {
    InitializeParameters<T>(plan, 1, absl::MakeSpan(parameters));
    EXPECT_TRUE(model->Bind(plan, parameters, absl::MakeSpan(gradients)).ok());
  }

  double Train(const Batch& batch, double scale) {
    return model->ForwardBackward(batch, {.scale = scale}, observer);
  }
  double Loss(const Batch& batch) { return model->Predict(batch).loss_sum; }

  ThreadPool pool{1};
  std::unique_ptr<Model<T>> model;
  Plan plan;
  std::vector<T> parameters;
  std::vector<T> gradients;
  RecordOrder observer;
};

TEST(MlpTest, HasItsTensorsInReverseExecutionOrder) {
  ThreadPool pool(1);
  const auto model = *CreateModel<float>(kSmall, {.pool = pool}, 1);
  std::vector<std::string> lines;
  for (const TensorSpec& spec : model->specs())
    lines.push_back(spec.name + " " + spec.shape.ToString());
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "output.weight [256,10]", "output.bias [256]",
                       "hidden.1.weight [10,10]", "hidden.1.bias [10]",
                       "hidden.0.weight [10,12]", "hidden.0.bias [10]",
                       "embedding.weight [256,4]"}));
}

TEST(MlpTest, GradientsMatchFiniteDifferences) {
  Instance<double> mlp;
  const Batch batch = RandomBatch(5, kWindow, 7);
  mlp.Train(batch, 0.2);
  constexpr double kStep = 1e-5;
  int64_t nonzero = 0;
  for (const PlannedTensor& tensor : mlp.plan.tensors()) {
    // Every third element, so that each tensor and each row is met.
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); i += 3) {
      const double middle =
          std::exchange(mlp.parameters[i], mlp.parameters[i] + kStep);
      const double above = mlp.Loss(batch);
      mlp.parameters[i] = middle - kStep;
      const double below = mlp.Loss(batch);
      mlp.parameters[i] = middle;
      ASSERT_NEAR(mlp.gradients[i], 0.2 * (above - below) / (2 * kStep), 1e-8)
          << tensor.spec.name << " at " << i;
      nonzero += mlp.gradients[i] != 0;
    }
  }
  EXPECT_GT(nonzero, 500);
}

TEST(MlpTest, TellsEachTensorOnceInPlanOrderWhenItsGradientIsFinal) {
  Instance<float> mlp;
  const Batch batch = RandomBatch(5, kWindow, 7);
  mlp.Train(batch, 1);
  EXPECT_EQ(mlp.observer.order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));

  // Destroying each gradient as soon as it is told must not change a later one.
  class Destroy final : public GradientObserver {
   public:
    explicit Destroy(Instance<float>& mlp) : mlp_(mlp) {}
    void OnTensorDone(int tensor_index) override {
      const ElemRange range = mlp_.plan.tensors()[tensor_index].range;
      for (int64_t i = range.begin; i < range.end(); ++i) {
        seen.push_back(std::exchange(mlp_.gradients[i],
                                     std::numeric_limits<float>::quiet_NaN()));
      }
    }
    std::vector<float> seen;

   private:
    Instance<float>& mlp_;
  };
  std::vector<float> want;
  for (const PlannedTensor& tensor : mlp.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      want.push_back(mlp.gradients[i]);
  }
  Destroy destroy(mlp);
  mlp.model->ForwardBackward(batch, {}, destroy);
  EXPECT_EQ(destroy.seen, want);
}

TEST(MlpTest, LeavesPaddingAlone) {
  Instance<float> mlp;
  const Batch batch = RandomBatch(2, kWindow, 1);
  mlp.Train(batch, 1);
  int64_t written = 0;
  for (float gradient : mlp.gradients) written += !std::isnan(gradient);
  EXPECT_EQ(written, mlp.plan.parameter_count());
}

TEST(MlpTest, EmptyBatchHasNoLossAndZeroGradients) {
  Instance<float> mlp;
  const Batch batch = RandomBatch(0, kWindow, 1);
  EXPECT_EQ(mlp.Train(batch, 0.1), 0);
  EXPECT_EQ(mlp.Loss(batch), 0);
  EXPECT_EQ(mlp.observer.order.size(), mlp.plan.tensors().size());
  for (const PlannedTensor& tensor : mlp.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      ASSERT_EQ(mlp.gradients[i], 0) << i;
  }
}

TEST(MlpTest, PartsOfABatchAddUpToTheWhole) {
  const Batch whole = RandomBatch(8, kWindow, 3);
  Instance<double> mlp;
  const double loss = mlp.Train(whole, 1.0 / 8);
  const std::vector<double> gradients = mlp.gradients;
  double sum_of_losses = 0;
  std::vector<double> sum(gradients.size());
  for (const auto& [begin, size] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 0}, {3, 5}}) {
    Batch part(size, {.tokens = kWindow});
    part.Resize(size);
    for (int64_t i = 0; i < size * kWindow; ++i) {
      part.mutable_inputs()[i] = whole.inputs()[begin * kWindow + i];
    }
    for (int64_t i = 0; i < size; ++i)
      part.mutable_targets()[i] = whole.targets()[begin + i];
    sum_of_losses += mlp.Train(part, 1.0 / 8);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mlp.gradients[i];
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-12);
  for (size_t i = 0; i < sum.size(); ++i) {
    if (std::isnan(sum[i])) continue;
    ASSERT_NEAR(sum[i], gradients[i], 1e-15) << i;
  }
}

TEST(MlpTest, FloatFollowsDouble) {
  const ModelConfig config = MlpConfig(8, 16, 64, 3);
  Instance<float> fast(config, 32);
  Instance<double> exact(config, 32);
  const Batch batch = RandomBatch(32, 8, 5);
  EXPECT_NEAR(fast.Train(batch, 1.0 / 32), exact.Train(batch, 1.0 / 32), 1e-3);
  for (size_t i = 0; i < fast.gradients.size(); ++i) {
    if (std::isnan(exact.gradients[i])) continue;
    ASSERT_NEAR(fast.gradients[i], exact.gradients[i],
                1e-6 + 1e-4 * std::abs(exact.gradients[i]))
        << i;
  }
}

TEST(MlpTest, RepeatsItselfBitForBit) {
  Instance<float> first;
  Instance<float> second;
  const Batch batch = RandomBatch(8, kWindow, 5);
  const Batch other = RandomBatch(3, kWindow, 6);
  // What one of them computed before must not matter.
  second.Train(other, 1);
  EXPECT_EQ(first.Train(batch, 1), second.Train(batch, 1));
  EXPECT_EQ(std::memcmp(first.gradients.data(), second.gradients.data(),
                        first.gradients.size() * sizeof(float)),
            0);
}

TEST(MlpTest, AllocatesNothingInAStep) {
  Instance<float> mlp(ModelConfig(), 64);
  const Batch batch = RandomBatch(64, 16, 5);
  mlp.Train(batch, 1);
  const int64_t before = AllocationCount();
  for (int step = 0; step < 3; ++step) {
    mlp.observer.order.clear();
    mlp.Train(batch, 1);
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_GT(before, 0);
}

TEST(MlpTest, FirstLossIsThatOfAGuess) {
  Instance<float> mlp(ModelConfig(), 64);
  EXPECT_NEAR(mlp.Loss(RandomBatch(64, 16, 5)) / 64, std::log(256), 0.3);
}

TEST(MlpTest, BindRefusesAnotherPlanOrSpansOfTheWrongSize) {
  Instance<float> mlp;
  const absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  const absl::Span<float> gradients = absl::MakeSpan(mlp.gradients);
  EXPECT_EQ(
      mlp.model->Bind(mlp.plan, mlp.parameters, gradients.subspan(1)).code(),
      kInvalid);
  EXPECT_EQ(mlp.model
                ->Bind(mlp.plan, absl::MakeConstSpan(mlp.parameters).subspan(1),
                       gradients)
                .code(),
            kInvalid);
  Instance<float> wider(MlpConfig(3, 4, 11, 2));
  const absl::Status status = mlp.model->Bind(wider.plan, wider.parameters,
                                              absl::MakeSpan(wider.gradients));
  EXPECT_EQ(status.message(), "mlp: the plan was made for other tensors");
}

TEST(MlpTest, AddsTheGradientsOfMicroBatches) {
  const Batch batch = RandomBatch(8, kWindow, 3);
  Instance<double> once;
  Instance<double> twice;
  once.Train(batch, 2);
  twice.Train(batch, 1);
  twice.model->ForwardBackward(batch, {.write = Write::kAdd}, twice.observer);
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    if (std::isnan(once.gradients[i])) continue;
    ASSERT_NEAR(once.gradients[i], twice.gradients[i], 1e-14) << i;
  }
}

TEST(MlpTest, ContinuesTextFromTheLastBytesThatItSees) {
  Instance<float> mlp;
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *mlp.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(logits({7, 8, 9}).size(), 256u);
  EXPECT_EQ(logits({7, 8, 9}), logits({1, 2, 7, 8, 9}));
  EXPECT_EQ(logits({9}), logits({0, 0, 9}));
  EXPECT_NE(logits({7, 8, 9}), logits({9, 8, 7}));
}

TEST(MlpTest, CountsTheTargetsThatItPredicts) {
  Instance<float> mlp;
  Batch batch = RandomBatch(6, kWindow, 3);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const absl::Span<const float> logits = *mlp.model->NextTokenLogits(
        batch.inputs().subspan(i * kWindow, kWindow));
    const auto best = std::max_element(logits.begin(), logits.end());
    // The first four are predicted, the others are not.
    batch.mutable_targets()[i] =
        static_cast<int32_t>((best - logits.begin() + (i < 4 ? 0 : 1)) % 256);
  }
  EXPECT_EQ(mlp.model->Predict(batch).correct, 4);
}

TEST(CreateModelTest, RefusesBadConfigsAndSaysWhy) {
  ThreadPool pool(1);
  const Compute compute = {.pool = pool};
  ModelConfig config = kSmall;
  config.kind = "gpt5";
  const absl::Status unknown = CreateModel<float>(config, compute, 1).status();
  EXPECT_EQ(unknown.message().substr(0, 32),
            "model.kind is \"gpt5\"; known are ");
  config = kSmall;
  config.settings["hidden_dim"] = {0};
  EXPECT_EQ(CreateModel<float>(config, compute, 1).status().message(),
            "model.mlp.hidden_dim is 0, but must be a whole number in [1, "
            "65536]");
  for (int64_t max_batch : {int64_t{-1}, (int64_t{1} << 20) + 1}) {
    EXPECT_EQ(CreateModel<float>(kSmall, compute, max_batch).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CreateModel<float>(MlpConfig(4096, 4096, 65536, 64), compute,
                               int64_t{1} << 20)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringmaster
