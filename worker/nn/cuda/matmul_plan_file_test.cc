#include "worker/nn/cuda/matmul_plan_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/logging/testing/log_capture.h"

namespace ringmaster {
namespace {

constexpr int64_t kVersion = 130100;
const MatmulAlgorithm kOne = {.words = {1}, .workspace_bytes = 10};
const MatmulAlgorithm kTwo = {.words = {2}, .workspace_bytes = 20};

class MatmulPlanFileTest : public ::testing::Test {
 protected:
  MatmulPlanFileTest()
      : directory_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name(),
            "/cache")) {
    std::filesystem::remove_all(directory_);
  }
  MatmulPlanFile Open() const { return {directory_, "NVIDIA H200", kVersion}; }
  std::string path() const {
    return directory_ + "/matmul_NVIDIA_H200_130100.txt";
  }
  void WriteFile(const std::string& text) const {
    std::filesystem::create_directories(directory_);
    std::ofstream(path()) << text;
  }

  const std::string directory_;
  LogCapture log_;
};

TEST_F(MatmulPlanFileTest, RemembersBeyondTheProcess) {
  MatmulPlanFile file = Open();
  EXPECT_EQ(file.Find("a"), std::nullopt);
  file.Add("a", kOne);
  EXPECT_EQ(file.Find("a"), kOne);
  EXPECT_EQ(Open().Find("a"), kOne);
  EXPECT_EQ(Open().Find("b"), std::nullopt);
  EXPECT_TRUE(log_.lines().empty());
  // The temporary file that it is first written to does not stay.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(MatmulPlanFileTest, IsOfOneKindOfGpuAndOneLibrary) {
  Open().Add("a", kOne);
  EXPECT_EQ(MatmulPlanFile(directory_, "NVIDIA A100", kVersion).Find("a"),
            std::nullopt);
  EXPECT_EQ(MatmulPlanFile(directory_, "NVIDIA H200", kVersion + 1).Find("a"),
            std::nullopt);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(MatmulPlanFileTest, KeepsWhatOthersFound) {
  MatmulPlanFile mine = Open();
  MatmulPlanFile theirs = Open();
  mine.Add("a", kOne);
  theirs.Add("b", kTwo);
  // Both measured it: each keeps the plan that it had first.
  mine.Add("b", kOne);
  EXPECT_EQ(mine.Find("b"), kOne);
  EXPECT_EQ(theirs.Find("a"), kOne);
  EXPECT_EQ(theirs.Find("b"), kTwo);
  EXPECT_EQ(Open().Find("a"), kOne);
}

TEST_F(MatmulPlanFileTest, WithoutADirectoryThereIsNoFile) {
  MatmulPlanFile file("", "NVIDIA H200", kVersion);
  file.Add("a", kOne);
  EXPECT_EQ(file.Find("a"), kOne);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(MatmulPlanFileTest, DamagedFileIsIgnoredOnceAndReplaced) {
  WriteFile("ringmaster matmul");
  MatmulPlanFile file = Open();
  EXPECT_EQ(file.Find("a"), std::nullopt);
  file.Add("a", kOne);
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_TRUE(log_.Contains("matmul.plans_ignored"));
  EXPECT_TRUE(log_.Contains("it was cut off"));
  EXPECT_EQ(Open().Find("a"), kOne);
}

TEST_F(MatmulPlanFileTest, FileOfAnotherGpuIsIgnored) {
  WriteFile(FormatMatmulPlans({.gpu = "NVIDIA A100",
                               .library_version = 1,
                               .algorithms = {{"a", kOne}}}));
  EXPECT_EQ(Open().Find("a"), std::nullopt);
  EXPECT_TRUE(log_.Contains("it is of NVIDIA A100 and library 1"));
}

TEST_F(MatmulPlanFileTest, UnreadableFileIsIgnored) {
  std::filesystem::create_directories(path());
  EXPECT_EQ(Open().Find("a"), std::nullopt);
  EXPECT_TRUE(log_.Contains("matmul.plans_ignored"));
  EXPECT_TRUE(log_.Contains("it cannot be read"));
}

TEST_F(MatmulPlanFileTest, FileThatCannotBeWrittenIsSaidOnce) {
  // A file is in the place of the directory.
  std::filesystem::create_directories(
      std::filesystem::path(directory_).parent_path());
  std::ofstream(directory_) << "x";
  MatmulPlanFile file = Open();
  const size_t before = log_.lines().size();
  file.Add("a", kOne);
  file.Add("b", kTwo);
  EXPECT_EQ(log_.lines().size(), before + 1);
  EXPECT_TRUE(log_.Contains("matmul.plans_not_written"));
  EXPECT_EQ(file.Find("a"), kOne);
  EXPECT_EQ(file.Find("b"), kTwo);
}

}  // namespace
}  // namespace ringmaster
