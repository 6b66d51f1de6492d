// Plans for an H200 are made without one, see testing/hopper_plans.h.
#include "worker/nn/cuda/cudnn_attention_graph.h"

#include <gtest/gtest.h>

#include "worker/nn/cuda/testing/hopper_plans.h"

namespace ringmaster::cuda {
namespace {

using CudnnAttentionGraphTest = HopperPlansTest;

constexpr AttentionShape kGpt2 = {8, 1024, 12, 64};
constexpr AttentionShape kOdd = {2, 77, 3, 128};

TEST_F(CudnnAttentionGraphTest, HopperHasForwardPlans) {
  ExpectCompiles(AttentionForwardGraph(library(), kGpt2, CUDNN_DATA_BFLOAT16));
  ExpectCompiles(AttentionForwardGraph(library(), kOdd, CUDNN_DATA_HALF));
}

TEST_F(CudnnAttentionGraphTest, HopperHasPlansWithoutACausalMask) {
  const AttentionShape bert = {32,
                               512,
                               12,
                               64,
                               /*is_causal=*/false,
                               /*is_apart=*/true};
  ExpectCompiles(AttentionForwardGraph(library(), bert, CUDNN_DATA_BFLOAT16));
  ExpectCompiles(AttentionBackwardGraph(library(), bert, CUDNN_DATA_BFLOAT16,
                                        GradientOrder::kFixed));
}

TEST_F(CudnnAttentionGraphTest, HopperHasDeterministicBackwardPlans) {
  ExpectCompiles(AttentionBackwardGraph(library(), kGpt2, CUDNN_DATA_BFLOAT16,
                                        GradientOrder::kFixed));
  ExpectCompiles(AttentionBackwardGraph(library(), kOdd, CUDNN_DATA_HALF,
                                        GradientOrder::kFixed));
}

TEST_F(CudnnAttentionGraphTest, HopperHasBackwardPlansThatAddInAnyOrder) {
  // A fixed order would take 192 MiB for the first.
  const CudnnPlanOptions any = {.refused = {},
                                .workspace_bytes = int64_t{32} << 20};
  for (const auto& [shape, type] : {std::pair(kGpt2, CUDNN_DATA_BFLOAT16),
                                    std::pair(kOdd, CUDNN_DATA_HALF)}) {
    const absl::Status status = Compile(
        AttentionBackwardGraph(library(), shape, type, GradientOrder::kAny),
        any);
    EXPECT_TRUE(IsCompiled(status)) << status;
  }
}

TEST_F(CudnnAttentionGraphTest, WhatCudnnCannotDoIsUnimplemented) {
  // No kernel has rows of 3 elements.
  const absl::Status status =
      Compile(AttentionForwardGraph(library(), {1, 64, 1, 3}, CUDNN_DATA_HALF));
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
}

}  // namespace
}  // namespace ringmaster::cuda
