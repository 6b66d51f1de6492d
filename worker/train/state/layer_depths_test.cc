#include "worker/train/state/layer_depths.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

std::vector<int> DepthsOf(const std::vector<std::string>& names,
                          const std::vector<std::string>& statistics = {}) {
  std::vector<PlannedTensor> tensors;
  for (const std::string& name : statistics)
    tensors.push_back({{name, Shape({4}), Initializer::Constant(0), 0.1}, {}});
  for (const std::string& name : names)
    tensors.push_back({{name, Shape({4}), Initializer::Constant(0)}, {}});
  return LayerDepths(tensors);
}

TEST(LayerDepthsTest, CountLayersFromTheOutput) {
  EXPECT_THAT(DepthsOf({"transformer.ln_f.weight", "transformer.ln_f.bias",
                        "transformer.h.1.mlp.c_proj.weight",
                        "transformer.h.1.ln_1.bias",
                        "transformer.h.0.mlp.c_proj.weight",
                        "transformer.wpe.weight", "transformer.wte.weight"}),
              ElementsAre(0, 0, 1, 1, 2, 3, 3));
  EXPECT_THAT(
      DepthsOf({"output.weight", "output.bias", "hidden.10.weight",
                "hidden.10.bias", "hidden.9.weight", "embedding.weight"}),
      ElementsAre(0, 0, 1, 1, 2, 3));
}

TEST(LayerDepthsTest, EachNumberedBlockOfAStageIsALayer) {
  EXPECT_THAT(DepthsOf({"fc.weight", "layer4.1.conv2.weight",
                        "layer4.0.downsample.0.weight", "layer4.0.conv1.weight",
                        "layer3.1.conv1.weight", "conv1.weight"}),
              ElementsAre(0, 1, 2, 2, 3, 4));
}

TEST(LayerDepthsTest, RunningStatisticsCountForNoLayer) {
  EXPECT_THAT(DepthsOf({"fc.weight", "layer2.0.conv1.weight",
                        "layer1.0.conv1.weight", "conv1.weight"},
                       {"bn1.running_mean", "layer1.0.bn1.running_mean",
                        "layer2.0.bn1.running_mean"}),
              ElementsAre(0, 0, 0, 0, 1, 2, 3));
}

TEST(LayerDepthsTest, WithoutLayersAllIsTheHead) {
  EXPECT_THAT(DepthsOf({"output.weight", "embedding.weight"}),
              ElementsAre(0, 0));
  EXPECT_THAT(DepthsOf({}), ElementsAre());
}

// It is the head itself: nothing is above it.
TEST(LayerDepthsTest, AModelMayBeginWithALayer) {
  EXPECT_THAT(DepthsOf({"1.weight", "0.weight"}), ElementsAre(1, 2));
}

}  // namespace
}  // namespace ringmaster
