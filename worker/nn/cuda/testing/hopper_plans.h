// Helpers for tests of cuDNN's graphs: plans for an H200, made without one.
// cuDNN can compile for a GPU that it knows only by its properties. Where there
// is no driver either, the toolkit's stub of it lets cuDNN compile, and then
// refuses to load the kernel.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_PLANS_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_PLANS_H_

#include <cuda.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cudnn_library.h"
#include "worker/nn/cuda/cudnn_graph.h"
#include "worker/nn/cuda/testing/hopper.h"

namespace ringmaster::cuda {

// Skipped, with the reason, where there is no cuDNN that can do so.
class HopperPlansTest : public ::testing::Test {
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
  const CudnnLibrary& library() const { return *library_; }
  absl::Status Compile(CudnnGraph graph,
                       CudnnPlanOptions options = {.workspace_bytes = int64_t{1}
                                                                      << 30}) {
    // The stub refuses every plan alike.
    if (!has_gpu_) options.most_tried = 1;
    return std::move(graph)
        .Compile({.handle = nullptr, .device = device_.get()}, options)
        .status();
  }
  // Returns true if it was compiled, for a status of Compile.
  bool IsCompiled(const absl::Status& status) const {
    const bool is_stubs_refusal =
        !has_gpu_ &&
        status.message().find("cuLibraryLoadData") != absl::string_view::npos;
    return status.ok() || is_stubs_refusal;
  }
  void ExpectCompiles(CudnnGraph graph) {
    const absl::Status status = Compile(std::move(graph));
    EXPECT_TRUE(IsCompiled(status)) << status;
  }

 private:
  bool has_gpu_ = false;
  std::unique_ptr<CudnnLibrary> library_;
  std::unique_ptr<CudnnDescriptor> device_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_PLANS_H_
