#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

constexpr int64_t kClasses = 4;

const ModelConfig kSmall = {.kind = "cnn",
                            .settings = {{"height", {7}},
                                         {"width", {6}},
                                         {"channels", {2}},
                                         {"classes", {kClasses}},
                                         {"filters", {3, 5}},
                                         {"hidden_dim", {6}}}};
const ModelConfig kDefaults = {.kind = "cnn"};

TEST(CnnTest, HasItsTensorsInReverseExecutionOrder) {
  ModelInstance<float> cnn(kSmall);
  EXPECT_EQ(cnn.TensorLines(),
            (std::vector<std::string>{
                "output.weight [4,6]", "output.bias [4]", "hidden.weight [6,5]",
                "hidden.bias [6]", "conv.1.weight [5,3,3,3]", "conv.1.bias [5]",
                "conv.0.weight [3,3,3,2]", "conv.0.bias [3]"}));
}

TEST(CnnTest, TakesImagesAndClasses) {
  ModelInstance<float> cnn(kDefaults, 1);
  EXPECT_EQ(cnn.model->input().shape, (SampleShape{.pixels = 784, .height = 28, .width = 28}));
  EXPECT_EQ(cnn.model->input().vocabulary, 10);
  EXPECT_EQ(cnn.plan.parameter_count(),
            32 * 9 + 32 + 64 * 288 + 64 + 3136 * 128 + 128 + 1280 + 10);
  // The backward pass has twice as many as the forward pass, except for the
  // gradients of pixels.
  const double first = 2.0 * 784 * 9 * 32;
  EXPECT_EQ(cnn.model->flops_per_sample(),
            2 * first + 3 * 2.0 * (196 * 288 * 64 + 3136 * 128 + 128 * 10));
}

TEST(CnnTest, CountsTheTargetsThatItPredicts) {
  ModelInstance<float> cnn(kSmall);
  Batch batch = cnn.RandomBatch(6, 3);
  int64_t correct = 0;
  // A sample's predicted class is the one that counts as correct.
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
    ModelInstance<float> cnn(kSmall);
    cnn.parameters[cnn.plan.tensors()[tensor].range.begin] =
        std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isfinite(cnn.Loss(cnn.RandomBatch(2, 1)))) << tensor;
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

}  // namespace
}  // namespace ringmaster
