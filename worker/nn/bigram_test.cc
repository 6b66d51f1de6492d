#include "worker/nn/bigram.h"

#include <cmath>
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

constexpr int64_t kVocabulary = 7;
constexpr int64_t kWindow = 5;

const ModelConfig kSmall = {.kind = "bigram",
                            .settings = {{"vocabulary", {kVocabulary}},
                                         {"window", {kWindow}},
                                         {"embedding_dim", {3}}}};

class RecordOrder final : public GradientObserver {
 public:
  RecordOrder() { order.reserve(100); }
  void OnTensorDone(int tensor_index) override {
    order.push_back(tensor_index);
  }
  std::vector<int> order;
};

Batch RandomBatch(int64_t size, uint64_t key) {
  Batch batch(size, {.tokens = kWindow, .targets = kWindow});
  batch.Resize(size);
  for (int64_t i = 0; i < size * kWindow; ++i) {
    batch.mutable_inputs()[i] =
        static_cast<int32_t>(CounterRandom(key, i) % kVocabulary);
    batch.mutable_targets()[i] =
        static_cast<int32_t>(CounterRandom(key + 1, i) % kVocabulary);
  }
  return batch;
}

template <typename T>
struct Instance {
  Instance()
      : model(*CreateModel<T>(kSmall, {.pool = pool}, 8)),
        plan(*Plan::Create(kSmall.kind, model->specs(), {})),
        parameters(static_cast<size_t>(plan.total_elems())),
        gradients(parameters.size(), std::numeric_limits<T>::quiet_NaN()) {
    InitializeParameters<T>(plan, 1, absl::MakeSpan(parameters));
    EXPECT_TRUE(model->Bind(plan, parameters, absl::MakeSpan(gradients)).ok());
  }

  ThreadPool pool{1};
  std::unique_ptr<Model<T>> model;
  Plan plan;
  std::vector<T> parameters;
  std::vector<T> gradients;
  RecordOrder observer;
};

TEST(BigramTest, GradientsMatchFiniteDifferences) {
  Instance<double> bigram;
  const Batch batch = RandomBatch(4, 7);
  bigram.model->ForwardBackward(batch, {.scale = 0.2}, bigram.observer);
  EXPECT_EQ(bigram.observer.order, (std::vector<int>{0, 1}));
  constexpr double kStep = 1e-5;
  for (const PlannedTensor& tensor : bigram.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      const double middle =
          std::exchange(bigram.parameters[i], bigram.parameters[i] + kStep);
      const double above = bigram.model->Predict(batch).loss_sum;
      bigram.parameters[i] = middle - kStep;
      const double below = bigram.model->Predict(batch).loss_sum;
      bigram.parameters[i] = middle;
      ASSERT_NEAR(bigram.gradients[i], 0.2 * (above - below) / (2 * kStep),
                  1e-8)
          << tensor.spec.name << " at " << i;
    }
  }
}

TEST(BigramTest, EmptyBatchHasNoLossAndZeroGradients) {
  Instance<float> bigram;
  const Batch batch = RandomBatch(0, 1);
  EXPECT_EQ(bigram.model->ForwardBackward(batch, {}, bigram.observer), 0);
  EXPECT_EQ(bigram.model->Predict(batch).loss_sum, 0);
  for (const PlannedTensor& tensor : bigram.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      ASSERT_EQ(bigram.gradients[i], 0) << i;
  }
}

TEST(BigramTest, AddsTheGradientsOfMicroBatches) {
  const Batch batch = RandomBatch(8, 3);
  Instance<double> once;
  Instance<double> twice;
  once.model->ForwardBackward(batch, {.scale = 2}, once.observer);
  twice.model->ForwardBackward(batch, {}, twice.observer);
  twice.model->ForwardBackward(batch, {.write = Write::kAdd}, twice.observer);
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    if (std::isnan(once.gradients[i])) continue;
    ASSERT_NEAR(once.gradients[i], twice.gradients[i], 1e-14) << i;
  }
}

TEST(BigramTest, AllocatesNothingInAStep) {
  Instance<float> bigram;
  const Batch batch = RandomBatch(8, 5);
  bigram.model->ForwardBackward(batch, {}, bigram.observer);
  const int64_t before = AllocationCount();
  bigram.model->ForwardBackward(batch, {}, bigram.observer);
  EXPECT_EQ(AllocationCount(), before);
}

// By plain gradient descent on pairs of which each token's successor follows
// from it.
TEST(BigramTest, LearnsWhatFollowsWhat) {
  Instance<float> bigram;
  Batch batch = RandomBatch(8, 3);
  for (size_t i = 0; i < batch.inputs().size(); ++i)
    batch.mutable_targets()[i] = (3 * batch.inputs()[i] + 1) % kVocabulary;
  const auto count = static_cast<int64_t>(batch.targets().size());
  EXPECT_NEAR(
      bigram.model->Predict(batch).loss_sum / static_cast<double>(count),
      std::log(kVocabulary), 0.1);
  for (int step = 0; step < 300; ++step) {
    bigram.observer.order.clear();
    bigram.model->ForwardBackward(
        batch, {.scale = 1.0 / static_cast<double>(count)}, bigram.observer);
    for (const PlannedTensor& tensor : bigram.plan.tensors()) {
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        bigram.parameters[i] -= bigram.gradients[i];
    }
  }
  EXPECT_EQ(bigram.model->Predict(batch).correct, count);
  const std::vector<int32_t> context = {1, 5, 2};
  const absl::Span<const float> logits =
      *bigram.model->NextTokenLogits(context);
  ASSERT_EQ(logits.size(), static_cast<size_t>(kVocabulary));
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_LE(logits[i], logits[(3 * 2 + 1) % kVocabulary]) << i;
}

TEST(BigramTest, RefusesABadSetting) {
  ThreadPool pool(1);
  ModelConfig config = kSmall;
  config.settings["window"] = {0};
  EXPECT_EQ(CreateModel<float>(config, {.pool = pool}, 1).status().message(),
            "model.bigram.window is 0, but must be a whole number in [1, "
            "65536]");
}

}  // namespace
}  // namespace ringmaster
