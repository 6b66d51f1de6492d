#include "common/files/new_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class NewFileTest : public ::testing::Test {
 protected:
  NewFileTest() { fs::create_directories(directory_); }
  ~NewFileTest() override { fs::remove_all(directory_); }

  std::string Content() const {
    std::stringstream content;
    content << std::ifstream(path_).rdbuf();
    return content.str();
  }
  int FileCount() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry :
         fs::directory_iterator(directory_))
      ++count;
    return count;
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = directory_ + "/file";
};

TEST_F(NewFileTest, WritesTheFileAndLeavesNothingElse) {
  NewFile file(path_, /*may_replace=*/false);
  EXPECT_TRUE(file.Check().ok());
  ASSERT_TRUE(file.Write("content").ok());
  EXPECT_EQ(Content(), "content");
  EXPECT_EQ(FileCount(), 1);
  file.GiveUp();
  EXPECT_EQ(Content(), "content");
}

TEST_F(NewFileTest, KeepsAFileThatIsThere) {
  std::ofstream(path_) << "old";
  NewFile file(path_, /*may_replace=*/false);
  EXPECT_EQ(file.Check().code(), absl::StatusCode::kAlreadyExists);
  const absl::Status status = file.Write("new");
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--force"));
  EXPECT_EQ(Content(), "old");
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(NewFileTest, ReplacesItIfItMay) {
  std::ofstream(path_) << "old";
  NewFile file(path_, /*may_replace=*/true);
  EXPECT_TRUE(file.Check().ok());
  ASSERT_TRUE(file.Write("new").ok());
  EXPECT_EQ(Content(), "new");
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(NewFileTest, NothingIsLeftOfOneThatWasGivenUp) {
  NewFile file(path_, /*may_replace=*/false);
  file.GiveUp();
  EXPECT_EQ(file.Write("content").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(FileCount(), 0);
}

TEST_F(NewFileTest, IsWrittenByOthersBetweenItsTwoSteps) {
  NewFile file(path_, /*may_replace=*/false, 0600);
  const absl::StatusOr<std::string> part = file.Create();
  ASSERT_TRUE(part.ok()) << part.status();
  std::ofstream(*part) << "theirs";
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(file.Publish().ok());
  EXPECT_EQ(Content(), "theirs");
  EXPECT_EQ(FileCount(), 1);
  EXPECT_EQ(fs::status(path_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(NewFileTest, OneThatWasGivenUpIsNotPublished) {
  NewFile file(path_, /*may_replace=*/false);
  ASSERT_TRUE(file.Create().ok());
  file.GiveUp();
  EXPECT_EQ(file.Publish().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(FileCount(), 0);
}

TEST_F(NewFileTest, ANameTakenMeanwhileIsKept) {
  NewFile file(path_, /*may_replace=*/false);
  ASSERT_TRUE(file.Create().ok());
  std::ofstream(path_) << "old";
  EXPECT_EQ(file.Publish().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content(), "old");
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(NewFileTest, SaysWhyTheSystemRefusesIt) {
  NewFile file("/nonexistent/file", /*may_replace=*/false);
  const absl::Status status = file.Write("content");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "cannot write the file /nonexistent/file: No such file or directory");
}

TEST_F(NewFileTest, NothingIsLeftOfOneThatHasNoRoom) {
  // Larger files are refused, as on a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  NewFile file(path_, /*may_replace=*/false);
  const absl::Status status = file.Write("content");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  EXPECT_EQ(FileCount(), 0);
}

}  // namespace
}  // namespace ringmaster
