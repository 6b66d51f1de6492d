#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

ModelConfig Small(double norm_group = 0) {
  return {.kind = "resnet",
          .settings = {{"depth", {10}},
                       {"height", {33}},
                       {"width", {40}},
                       {"classes", {4}},
                       {"filters", {4}},
                       {"norm_group", {norm_group}}}};
}

bool Has(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST(ResnetTest, HasTorchvisionsTensors) {
  // The numbers of parameters that torchvision gives for its resnet18 and 50.
  for (const auto& [depth, parameters] :
       {std::pair(18, 11689512), std::pair(34, 21797672),
        std::pair(50, 25557032)}) {
    ModelInstance<float> resnet(
        {"resnet", {{"depth", {static_cast<double>(depth)}}}}, 0);
    EXPECT_EQ(resnet.plan.parameter_count(), parameters);
  }
  ModelInstance<float> resnet({"resnet", {{"depth", {50}}}}, 0);
  const std::vector<std::string> lines = resnet.TensorLines();
  for (const char* line :
       {"conv1.weight [64,3,7,7]", "bn1.running_var [64]",
        "layer1.0.conv2.weight [64,64,3,3]",
        "layer2.0.downsample.0.weight [512,256,1,1]",
        "layer2.0.downsample.1.running_mean [512]", "layer4.2.bn3.bias [2048]",
        "fc.weight [1000,2048]", "fc.bias [1000]"})
    EXPECT_TRUE(Has(lines, line)) << line;
  EXPECT_EQ(lines.front(), "bn1.running_mean [64]");
  EXPECT_EQ(lines.back(), "conv1.weight [64,3,7,7]");
  // 4.1 billion products going forward, thrice, but for the pixels' gradient.
  EXPECT_NEAR(resnet.model->flops_per_sample(), 24.3e9, 0.1e9);
}

TEST(ResnetTest, LearnsAndEvaluatesWithItsRunningStatistics) {
  ModelInstance<float> resnet(Small());
  const Batch batch = resnet.RandomBatch(8, 3);
  const double first = resnet.Train(batch, {.scale = 1.0 / 8});
  for (int step = 0; step < 60; ++step) {
    resnet.Train(batch, {.scale = 1.0 / 8});
    // Statistics go a tenth of their way, whatever the learning rate is.
    for (const PlannedTensor& tensor : resnet.plan.tensors()) {
      const float rate = tensor.spec.tracking_rate != 0
                             ? static_cast<float>(tensor.spec.tracking_rate)
                             : 0.02f;
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        resnet.parameters[i] -= rate * resnet.gradients[i];
    }
  }
  EXPECT_LT(resnet.Train(batch), first / 10);
  EXPECT_LT(resnet.Loss(batch), first / 5);
}

TEST(ResnetTest, AGroupOfSamplesIsNormalizedAlikeWhereverItIsComputed) {
  ModelInstance<double> whole(Small(2));
  whole.RandomizeParameters();
  const Batch batch = whole.RandomBatch(6, 3);
  const double loss = whole.Train(batch, {.scale = 1.0 / 6});
  const std::vector<double> want = whole.Gradients();
  std::vector<double> sum(want.size());
  double sum_of_losses = 0;
  for (const std::vector<int64_t>& places :
       std::vector<std::vector<int64_t>>{{4, 5}, {0, 1, 2, 3}}) {
    sum_of_losses +=
        whole.Train(PickSamples(batch, places), {.scale = 1.0 / 6});
    const std::vector<double> part = whole.Gradients();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-12 * loss);
  for (size_t i = 0; i < sum.size(); ++i)
    EXPECT_NEAR(sum[i], want[i], 1e-10 * (1 + std::abs(want[i])));
}

TEST(ResnetTest, CanBeginAsItsShortcuts) {
  ModelConfig config = Small();
  config.settings["zero_init"] = {1};
  ModelInstance<float> resnet(config);
  for (const PlannedTensor& tensor : resnet.plan.tensors()) {
    const std::string& name = tensor.spec.name;
    if (!name.ends_with("bn1.weight") && !name.ends_with("bn2.weight"))
      continue;
    EXPECT_EQ(resnet.parameters[tensor.range.begin],
              name.ends_with("bn2.weight") ? 0 : 1)
        << name;
  }
}

std::string Refusal(const std::string& setting, std::vector<double> values) {
  ThreadPool pool(1);
  ModelConfig config = Small();
  config.settings[setting] = std::move(values);
  const absl::Status status =
      CreateModel<float>(config, {.pool = pool}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ResnetTest, RefusesBadSettingsAndSaysWhy) {
  EXPECT_EQ(Refusal("depth", {20}),
            "model.resnet.depth is 20, but must be one of 10, 14, 18, 26, 34, "
            "50, 101, 152");
  EXPECT_EQ(Refusal("channels", {5}),
            "model.resnet.channels is 5, but must be a whole number in [1, 4]");
  EXPECT_EQ(Refusal("pixel_mean_permille", {500}),
            "model.resnet.pixel_mean_permille has 1 entries, but must have one "
            "for each "
            "of 3 channels");
  EXPECT_EQ(Refusal("pixel_deviation_permille", {1, 0, 1}),
            "model.resnet.pixel_deviation_permille is 0, but must be a whole "
            "number in [1, 1000]");
  ModelConfig one_pixel = Small();
  one_pixel.settings["height"] = {32};
  one_pixel.settings["width"] = {32};
  ThreadPool pool(1);
  EXPECT_EQ(CreateModel<float>(one_pixel, {.pool = pool}, 1).status().message(),
            "model.resnet.norm_group is 0, but must be 2 or more for images of "
            "32x32 pixels, of which the last layers have one: its mean over "
            "one sample would be the sample itself");
}

}  // namespace
}  // namespace ringmaster
