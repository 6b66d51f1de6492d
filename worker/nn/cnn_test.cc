#include "worker/nn/cnn.h"

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

constexpr int64_t kPixels = 7 * 6 * 2;
constexpr int64_t kClasses = 4;

const ModelConfig kSmall = {.kind = "cnn",
                            .settings = {{"height", {7}},
                                         {"width", {6}},
                                         {"channels", {2}},
                                         {"classes", {kClasses}},
                                         {"filters", {3, 5}},
                                         {"hidden_dim", {6}}}};
const ModelConfig kDefaults = {.kind = "cnn"};

class RecordOrder final : public GradientObserver {
 public:
  RecordOrder() { order.reserve(100); }
  void OnTensorDone(int tensor_index) override {
    order.push_back(tensor_index);
  }
  std::vector<int> order;
};

Batch RandomBatch(int64_t size, uint64_t key, int64_t pixels = kPixels,
                  int64_t classes = kClasses) {
  Batch batch(size, {.pixels = pixels});
  batch.Resize(size);
  for (int64_t i = 0; i < size * pixels; ++i) {
    batch.mutable_pixels()[i] =
        static_cast<uint8_t>(CounterRandom(key, i) % 256);
  }
  for (int64_t i = 0; i < size; ++i) {
    batch.mutable_targets()[i] = static_cast<int32_t>(
        CounterRandom(key + 1, i) % static_cast<uint64_t>(classes));
  }
  return batch;
}

// A model with the arenas that it works on.
template <typename T>
struct Instance {
  explicit Instance(const ModelConfig& config = kSmall, int64_t max_batch = 8,
                    int threads = 1)
      : pool(threads),
        model(*CreateModel<T>(config, {.pool = pool}, max_batch)),
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

  ThreadPool pool;
  std::unique_ptr<Model<T>> model;
  Plan plan;
  std::vector<T> parameters;
  std::vector<T> gradients;
  RecordOrder observer;
};

TEST(CnnTest, HasItsTensorsInReverseExecutionOrder) {
  Instance<float> cnn;
  std::vector<std::string> lines;
  for (const TensorSpec& spec : cnn.model->specs())
    lines.push_back(spec.name + " " + spec.shape.ToString());
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "output.weight [4,6]", "output.bias [4]", "hidden.weight [6,5]",
                "hidden.bias [6]", "conv.1.weight [5,3,3,3]", "conv.1.bias [5]",
                "conv.0.weight [3,3,3,2]", "conv.0.bias [3]"}));
}

TEST(CnnTest, TakesImagesAndClasses) {
  Instance<float> cnn(kDefaults, 1);
  EXPECT_EQ(cnn.model->input().shape, (SampleShape{.pixels = 784}));
  EXPECT_EQ(cnn.model->input().vocabulary, 10);
  EXPECT_EQ(cnn.plan.parameter_count(),
            32 * 9 + 32 + 64 * 288 + 64 + 3136 * 128 + 128 + 1280 + 10);
  // Twice as many for going forward and back as for going forward, but for the
  // pixels' gradients.
  const double first = 2.0 * 784 * 9 * 32;
  EXPECT_EQ(cnn.model->flops_per_sample(),
            2 * first + 3 * 2.0 * (196 * 288 * 64 + 3136 * 128 + 128 * 10));
  EXPECT_FALSE(cnn.model->NextTokenLogits({1}).ok());
}

TEST(CnnTest, GradientsMatchFiniteDifferences) {
  Instance<double> cnn;
  const Batch batch = RandomBatch(5, 7);
  cnn.Train(batch, 0.2);
  // Small, so that no ReLU and no maximum changes its mind on the way.
  constexpr double kStep = 1e-6;
  int64_t nonzero = 0;
  for (const PlannedTensor& tensor : cnn.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      const double middle =
          std::exchange(cnn.parameters[i], cnn.parameters[i] + kStep);
      const double above = cnn.Loss(batch);
      cnn.parameters[i] = middle - kStep;
      const double below = cnn.Loss(batch);
      cnn.parameters[i] = middle;
      ASSERT_NEAR(cnn.gradients[i], 0.2 * (above - below) / (2 * kStep), 1e-8)
          << tensor.spec.name << " at " << i;
      nonzero += cnn.gradients[i] != 0;
    }
  }
  EXPECT_GT(nonzero, cnn.plan.parameter_count() / 2);
}

TEST(CnnTest, TellsEachTensorOnceInPlanOrderWhenItsGradientIsFinal) {
  Instance<float> cnn;
  const Batch batch = RandomBatch(5, 7);
  cnn.Train(batch, 1);
  EXPECT_EQ(cnn.observer.order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));

  // Destroying each gradient as soon as it is told must not change a later one.
  class Destroy final : public GradientObserver {
   public:
    explicit Destroy(Instance<float>& cnn) : cnn_(cnn) {}
    void OnTensorDone(int tensor_index) override {
      const ElemRange range = cnn_.plan.tensors()[tensor_index].range;
      for (int64_t i = range.begin; i < range.end(); ++i) {
        seen.push_back(std::exchange(cnn_.gradients[i],
                                     std::numeric_limits<float>::quiet_NaN()));
      }
    }
    std::vector<float> seen;

   private:
    Instance<float>& cnn_;
  };
  std::vector<float> want;
  for (const PlannedTensor& tensor : cnn.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      want.push_back(cnn.gradients[i]);
  }
  Destroy destroy(cnn);
  cnn.model->ForwardBackward(batch, {}, destroy);
  EXPECT_EQ(destroy.seen, want);
}

TEST(CnnTest, LeavesPaddingAlone) {
  Instance<float> cnn;
  cnn.Train(RandomBatch(2, 1), 1);
  int64_t written = 0;
  for (float gradient : cnn.gradients) written += !std::isnan(gradient);
  EXPECT_EQ(written, cnn.plan.parameter_count());
}

TEST(CnnTest, EmptyBatchHasNoLossAndZeroGradients) {
  Instance<float> cnn;
  const Batch batch = RandomBatch(0, 1);
  EXPECT_EQ(cnn.Train(batch, 0.1), 0);
  EXPECT_EQ(cnn.Loss(batch), 0);
  EXPECT_EQ(cnn.observer.order.size(), cnn.plan.tensors().size());
  for (const PlannedTensor& tensor : cnn.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      ASSERT_EQ(cnn.gradients[i], 0) << i;
  }
}

TEST(CnnTest, PartsOfABatchAddUpToTheWhole) {
  const Batch whole = RandomBatch(8, 3);
  Instance<double> cnn;
  const double loss = cnn.Train(whole, 1.0 / 8);
  const std::vector<double> gradients = cnn.gradients;
  double sum_of_losses = 0;
  std::vector<double> sum(gradients.size());
  for (const auto& [begin, size] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 0}, {3, 5}}) {
    Batch part(size, whole.shape());
    part.CopyRange(whole, begin, size);
    sum_of_losses += cnn.Train(part, 1.0 / 8);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += cnn.gradients[i];
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-12);
  for (size_t i = 0; i < sum.size(); ++i) {
    if (std::isnan(sum[i])) continue;
    ASSERT_NEAR(sum[i], gradients[i], 1e-14) << i;
  }
}

TEST(CnnTest, AddsTheGradientsOfMicroBatches) {
  const Batch batch = RandomBatch(8, 3);
  Instance<double> once;
  Instance<double> twice;
  once.Train(batch, 2);
  twice.Train(batch, 1);
  twice.model->ForwardBackward(batch, {.write = Write::kAdd}, twice.observer);
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    if (std::isnan(once.gradients[i])) continue;
    ASSERT_NEAR(once.gradients[i], twice.gradients[i], 1e-13) << i;
  }
}

TEST(CnnTest, FloatFollowsDouble) {
  Instance<float> fast(kDefaults, 8);
  Instance<double> exact(kDefaults, 8);
  const Batch batch = RandomBatch(8, 5, 784, 10);
  EXPECT_NEAR(fast.Train(batch, 1.0 / 8), exact.Train(batch, 1.0 / 8), 1e-5);
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < fast.gradients.size(); ++i) {
    if (std::isnan(exact.gradients[i])) continue;
    const double difference = fast.gradients[i] - exact.gradients[i];
    error += difference * difference;
    norm += exact.gradients[i] * exact.gradients[i];
  }
  EXPECT_TRUE(error <= 1e-10 * norm) << std::sqrt(error / norm);
}

TEST(CnnTest, RepeatsItselfBitForBitOnEveryPool) {
  Instance<float> first(kDefaults, 8);
  const Batch batch = RandomBatch(8, 5, 784, 10);
  const double loss = first.Train(batch, 1);
  for (int threads : {1, 2, 3}) {
    Instance<float> other(kDefaults, 8, threads);
    // What it computed before must not matter.
    other.Train(RandomBatch(3, 6, 784, 10), 1);
    EXPECT_EQ(other.Train(batch, 1), loss);
    EXPECT_EQ(std::memcmp(first.gradients.data(), other.gradients.data(),
                          first.gradients.size() * sizeof(float)),
              0)
        << threads << " threads";
  }
}

TEST(CnnTest, AllocatesNothingInAStep) {
  Instance<float> cnn(kDefaults, 8);
  const Batch batch = RandomBatch(8, 5, 784, 10);
  cnn.Train(batch, 1);
  const int64_t before = AllocationCount();
  for (int step = 0; step < 3; ++step) {
    cnn.observer.order.clear();
    cnn.Train(batch, 1);
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_GT(before, 0);
}

TEST(CnnTest, FirstLossIsThatOfAGuess) {
  Instance<float> cnn(kDefaults, 64);
  EXPECT_NEAR(cnn.Loss(RandomBatch(64, 5, 784, 10)) / 64, std::log(10), 0.1);
}

TEST(CnnTest, CountsTheTargetsThatItPredicts) {
  Instance<float> cnn;
  Batch batch = RandomBatch(6, 3);
  int64_t correct = 0;
  // Each sample's class is the one that is counted.
  for (int64_t i = 0; i < batch.size(); ++i) {
    Batch one(1, batch.shape());
    one.CopyRange(batch, i, 1);
    for (int32_t target = 0; target < kClasses; ++target) {
      one.mutable_targets()[0] = target;
      if (cnn.model->Predict(one).correct != 1) continue;
      ++correct;
      // The first four are predicted, the others are not.
      batch.mutable_targets()[i] =
          static_cast<int32_t>((target + (i < 4 ? 0 : 1)) % kClasses);
    }
  }
  EXPECT_EQ(correct, batch.size());
  EXPECT_EQ(cnn.model->Predict(batch).correct, 4);
}

TEST(CnnTest, ANanParameterShowsInTheLoss) {
  for (const int tensor : {0, 2, 4, 6}) {  // the weights
    Instance<float> cnn;
    cnn.parameters[cnn.plan.tensors()[tensor].range.begin] =
        std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isfinite(cnn.Loss(RandomBatch(2, 1)))) << tensor;
  }
}

std::string Refusal(const std::string& setting, std::vector<double> values) {
  ThreadPool pool(1);
  ModelConfig config = kDefaults;
  config.settings[setting] = std::move(values);
  const absl::Status status =
      CreateModel<float>(config, {.pool = pool}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(CnnTest, RefusesBadSettingsAndSaysWhy) {
  EXPECT_EQ(Refusal("height", {0}),
            "model.cnn.height is 0, but must be a whole number in [1, 4096]");
  EXPECT_EQ(Refusal("filters", {8, 0}),
            "model.cnn.filters is 0, but must be a whole number in [1, 4096]");
  EXPECT_EQ(Refusal("filters", {}),
            "model.cnn.filters has 0 entries, but must have 1 to 16");
  EXPECT_EQ(Refusal("filters", std::vector<double>(17, 8)),
            "model.cnn.filters has 17 entries, but must have 1 to 16");
  EXPECT_EQ(Refusal("filters", {8, 8, 8, 8, 8}),
            "model.cnn.filters has 5 entries, each of which halves the image: "
            "it must be at least 32x32 pixels, but is 28x28");
  EXPECT_EQ(Refusal("depth", {1}).substr(0, 36),
            "model.cnn has no setting \"depth\"; it");
}

TEST(CnnTest, SaysThatThereIsNoMemory) {
  ThreadPool pool(1);
  ModelConfig config = kDefaults;
  config.settings["height"] = {4096};
  config.settings["width"] = {4096};
  config.settings["filters"] = {4096};
  EXPECT_EQ(CreateModel<float>(config, {.pool = pool}, int64_t{1} << 20)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CnnTest, BindRefusesAnotherPlan) {
  Instance<float> cnn;
  Instance<float> other(kDefaults, 1);
  EXPECT_EQ(
      cnn.model
          ->Bind(other.plan, other.parameters, absl::MakeSpan(other.gradients))
          .message(),
      "cnn: the plan was made for other tensors");
}

}  // namespace
}  // namespace ringmaster
