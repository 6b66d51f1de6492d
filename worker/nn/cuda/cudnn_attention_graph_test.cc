// Plans for an H200 are made without one: cuDNN compiles for a GPU of which it
// is told the properties. Where there is no driver either, the toolkit's stub of
// it lets cuDNN compile, and then refuses to load the kernel.
#include "worker/nn/cuda/cudnn_attention_graph.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "worker/nn/cuda/testing/hopper.h"

namespace ringmaster::cuda {
namespace {

constexpr CudnnPlanOptions kOptions = {.deterministic = true,
                                       .workspace_bytes = int64_t{1} << 30};

class CudnnAttentionGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = SharedLibrary::Load(
        {"libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so"});
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    decltype(cuInit)* init = nullptr;
    ASSERT_TRUE(driver->Find("cuInit", &init).ok());
    has_gpu_ = init(0) == CUDA_SUCCESS;
    auto library = CudnnLibrary::Load();
    if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = std::make_unique<CudnnLibrary>(*std::move(library));
    if (library_->version() < 90800) {
      GTEST_SKIP() << "cuDNN " << library_->version()
                   << " makes no plans without a GPU";
    }
    device_ = std::make_unique<CudnnDescriptor>(*library_);
    ASSERT_TRUE(device_->Create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).ok());
    ASSERT_TRUE(device_
                    ->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                          CUDNN_TYPE_CHAR, kHopperProperties.size(),
                          kHopperProperties.data())
                    .ok());
    const absl::Status status = device_->Finalize();
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status Compile(CudnnGraph graph) {
    return std::move(graph)
        .Compile({.handle = nullptr, .device = device_.get()}, kOptions)
        .status();
  }
  // Whether it was compiled.
  void ExpectCompiles(CudnnGraph graph) {
    const absl::Status status = Compile(std::move(graph));
    const bool is_stubs_refusal =
        !has_gpu_ &&
        status.message().find("cuLibraryLoadData") != absl::string_view::npos;
    EXPECT_TRUE(status.ok() || is_stubs_refusal) << status;
  }

  bool has_gpu_ = false;
  std::unique_ptr<CudnnLibrary> library_;
  std::unique_ptr<CudnnDescriptor> device_;
};

constexpr AttentionShape kGpt2 = {8, 1024, 12, 64};
constexpr AttentionShape kOdd = {2, 77, 3, 128};

TEST_F(CudnnAttentionGraphTest, HopperHasForwardPlans) {
  ExpectCompiles(AttentionForwardGraph(*library_, kGpt2, CUDNN_DATA_BFLOAT16));
  ExpectCompiles(AttentionForwardGraph(*library_, kOdd, CUDNN_DATA_HALF));
}

TEST_F(CudnnAttentionGraphTest, HopperHasDeterministicBackwardPlans) {
  ExpectCompiles(AttentionBackwardGraph(*library_, kGpt2, CUDNN_DATA_BFLOAT16));
  ExpectCompiles(AttentionBackwardGraph(*library_, kOdd, CUDNN_DATA_HALF));
}

TEST_F(CudnnAttentionGraphTest, WhatCudnnCannotDoIsUnimplemented) {
  // No kernel has rows of 3 elements.
  const absl::Status status =
      Compile(AttentionForwardGraph(*library_, {1, 64, 1, 3}, CUDNN_DATA_HALF));
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
}

}  // namespace
}  // namespace ringmaster::cuda
