// Needs no GPU: the library loads without one.
#include "worker/device/cuda/cupti_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(CuptiLibraryTest, LoadsAndReportsItsVersion) {
  const auto library = CuptiLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->version() / 10000, CUPTI_API_VERSION / 10000);
}

TEST(CuptiLibraryTest, SaysWhatWentWrong) {
  const auto library = CuptiLibrary::Load();
  if (absl::IsNotFound(library.status())) GTEST_SKIP() << library.status();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_TRUE(library->ToStatus(CUPTI_SUCCESS, "a flush").ok());
  const absl::Status taken = library->ToStatus(
      CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "a flush");
  EXPECT_EQ(taken.code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status failed =
      library->ToStatus(CUPTI_ERROR_INVALID_KIND, "a flush");
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed.message()),
              HasSubstr("a flush: CUPTI_ERROR_INVALID_KIND"));
}

}  // namespace
}  // namespace ringmaster
