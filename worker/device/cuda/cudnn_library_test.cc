// Needs no GPU: the library loads without one.
#include "worker/device/cuda/cudnn_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::StartsWith;

TEST(CudnnLibraryTest, LoadsAndReportsItsVersion) {
  const auto library = CudnnLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_GE(library->version(), CudnnLibrary::kOldestVersion);
}

TEST(CudnnLibraryTest, SaysWhatToDoAboutAnError) {
  const auto library = CudnnLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_TRUE(library->ToStatus(CUDNN_STATUS_SUCCESS, "plan").ok());
  struct Case {
    cudnnStatus_t result;
    absl::StatusCode code;
  };
  for (const Case& c :
       {Case{CUDNN_STATUS_NOT_SUPPORTED, absl::StatusCode::kUnimplemented},
        Case{CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
             absl::StatusCode::kUnimplemented},
        Case{CUDNN_STATUS_BAD_PARAM, absl::StatusCode::kFailedPrecondition},
        Case{CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
             absl::StatusCode::kFailedPrecondition},
        Case{CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
             absl::StatusCode::kResourceExhausted},
        Case{CUDNN_STATUS_EXECUTION_FAILED, absl::StatusCode::kInternal}}) {
    EXPECT_EQ(library->ToStatus(c.result, "plan").code(), c.code) << c.result;
  }
  EXPECT_THAT(
      std::string(
          library->ToStatus(CUDNN_STATUS_NOT_SUPPORTED, "plan").message()),
      StartsWith("plan: CUDNN_STATUS_NOT_SUPPORTED"));
}

}  // namespace
}  // namespace ringmaster
