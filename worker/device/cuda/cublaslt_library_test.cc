// Needs no GPU: the library loads without one.
#include "worker/device/cuda/cublaslt_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(CublasLtLibraryTest, LoadsAndReportsItsVersion) {
  const auto library = CublasLtLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_GE(library->version(), CublasLtLibrary::kOldestVersion);
}

TEST(CublasLtLibraryTest, SaysWhatToDoAboutAnError) {
  const auto library = CublasLtLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_TRUE(library->ToStatus(CUBLAS_STATUS_SUCCESS, "product").ok());
  struct Case {
    cublasStatus_t result;
    absl::StatusCode code;
  };
  for (const Case& c :
       {Case{CUBLAS_STATUS_NOT_SUPPORTED, absl::StatusCode::kUnimplemented},
        Case{CUBLAS_STATUS_ARCH_MISMATCH, absl::StatusCode::kUnimplemented},
        Case{CUBLAS_STATUS_INVALID_VALUE,
             absl::StatusCode::kFailedPrecondition},
        Case{CUBLAS_STATUS_ALLOC_FAILED, absl::StatusCode::kResourceExhausted},
        Case{CUBLAS_STATUS_EXECUTION_FAILED, absl::StatusCode::kInternal}}) {
    EXPECT_EQ(library->ToStatus(c.result, "product").code(), c.code);
  }
  EXPECT_THAT(
      std::string(
          library->ToStatus(CUBLAS_STATUS_NOT_SUPPORTED, "product").message()),
      HasSubstr("product: "));
}

}  // namespace
}  // namespace ringmaster
