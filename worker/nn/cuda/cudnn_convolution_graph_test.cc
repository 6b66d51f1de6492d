// Plans for an H200 are made without one, see testing/hopper_plans.h.
#include "worker/nn/cuda/cudnn_convolution_graph.h"

#include <gtest/gtest.h>

#include "worker/nn/cuda/testing/hopper_plans.h"

namespace ringmaster::cuda {
namespace {

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::kForward,
                                       ConvolutionPass::kBackwardInput,
                                       ConvolutionPass::kBackwardWeight};
constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16,
                                      CUDNN_DATA_HALF};
// A stage of a network, and its first one, of images in colours.
constexpr Conv2dShape kStage = {32, 16, 16, 64, 128, 3};
constexpr Conv2dShape kFirst = {32, 32, 32, 3, 32, 3};

class CudnnConvolutionGraphTest : public HopperPlansTest {
 protected:
  absl::Status Compile(ConvolutionPass pass, const Conv2dShape& shape,
                       cudnnDataType_t type, bool use_tf32) {
    return HopperPlansTest::Compile(
        ConvolutionGraph(library(), pass, shape, type),
        ConvolutionPlanOptions(type, use_tf32));
  }
};

TEST_F(CudnnConvolutionGraphTest, HopperHasPlansForAllPassesAndTypes) {
  for (const ConvolutionPass pass : kPasses) {
    for (const cudnnDataType_t type : kTypes) {
      for (const bool use_tf32 : {false, true}) {
        if (use_tf32 && type != CUDNN_DATA_FLOAT) continue;
        const absl::Status status = Compile(pass, kStage, type, use_tf32);
        EXPECT_TRUE(IsCompiled(status))
            << static_cast<int>(pass) << ", " << type << ": " << status;
      }
    }
  }
}

TEST_F(CudnnConvolutionGraphTest, OddChannelsHaveNoWeightGradientIn16Bits) {
  for (const ConvolutionPass pass : kPasses) {
    for (const cudnnDataType_t type : kTypes) {
      const absl::Status status = Compile(pass, kFirst, type, true);
      if (pass == ConvolutionPass::kBackwardWeight &&
          type != CUDNN_DATA_FLOAT) {
        EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
      } else {
        EXPECT_TRUE(IsCompiled(status))
            << static_cast<int>(pass) << ", " << type << ": " << status;
      }
    }
  }
}

TEST_F(CudnnConvolutionGraphTest, WhatLosesDigitsIsRefused) {
  CudnnPlanOptions options = ConvolutionPlanOptions(CUDNN_DATA_BFLOAT16, false);
  // Refuses all plans that multiply 16 bits at a stage's size.
  options.refused.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  const absl::Status status = HopperPlansTest::Compile(
      ConvolutionGraph(library(), ConvolutionPass::kBackwardWeight, kStage,
                       CUDNN_DATA_BFLOAT16),
      options);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(status.message(), "it loses digits (cuDNN's numerical note 0)");
}

TEST_F(CudnnConvolutionGraphTest, PlansThatWantMoreScratchAreNotUsed) {
  CudnnPlanOptions options = ConvolutionPlanOptions(CUDNN_DATA_FLOAT, false);
  options.workspace_bytes = -1;
  const absl::Status status = HopperPlansTest::Compile(
      ConvolutionGraph(library(), ConvolutionPass::kForward, kStage,
                       CUDNN_DATA_FLOAT),
      options);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
}

}  // namespace
}  // namespace ringmaster::cuda
