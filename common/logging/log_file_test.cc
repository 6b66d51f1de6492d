#include "common/logging/log_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogFileTest : public ::testing::Test {
 protected:
  LogFileTest() { std::filesystem::create_directories(directory_); }
  ~LogFileTest() override { std::filesystem::remove_all(directory_); }

  LogFile Open(int64_t max_bytes, int max_rotated = 1) {
    auto file = LogFile::Open({path_, max_bytes, max_rotated});
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  static std::vector<std::string> Lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  const std::string directory_ = absl::StrCat(
      std::getenv("TEST_TMPDIR"), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = directory_ + "/log";
};

TEST_F(LogFileTest, KeepsSoManyFullFiles) {
  LogFile file = Open(/*max_bytes=*/8, /*max_rotated=*/2);
  for (int i = 1; i <= 7; ++i)
    ASSERT_TRUE(file.Append(absl::StrCat("line", i, "\n")).ok());
  EXPECT_THAT(Lines(path_), ElementsAre("line7"));
  EXPECT_THAT(Lines(path_ + ".1"), ElementsAre("line5", "line6"));
  EXPECT_THAT(Lines(path_ + ".2"), ElementsAre("line3", "line4"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
}

TEST_F(LogFileTest, ContinuesTheFileThatIsThere) {
  { ASSERT_TRUE(Open(8).Append("12345678\n").ok()); }
  LogFile file = Open(8);
  ASSERT_TRUE(file.Append("next\n").ok());
  EXPECT_THAT(Lines(path_ + ".1"), ElementsAre("12345678"));
  EXPECT_THAT(Lines(path_), ElementsAre("next"));
}

TEST_F(LogFileTest, WithoutALimitItOnlyGrows) {
  LogFile file = Open(/*max_bytes=*/0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(file.Append("line\n").ok());
  EXPECT_EQ(Lines(path_).size(), 100);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
}

TEST_F(LogFileTest, FollowsTheNameIfTheFileIsRenamedOrRemoved) {
  LogFile file = Open(0);
  ASSERT_TRUE(file.Append("one\n").ok());
  std::filesystem::rename(path_, path_ + ".old");
  ASSERT_TRUE(file.Append("two\n").ok());
  std::filesystem::remove(path_);
  ASSERT_TRUE(file.Append("three\n").ok());
  EXPECT_THAT(Lines(path_ + ".old"), ElementsAre("one"));
  EXPECT_THAT(Lines(path_), ElementsAre("three"));
  ASSERT_TRUE(file.Reopen().ok());
  ASSERT_TRUE(file.Append("four\n").ok());
  EXPECT_THAT(Lines(path_), ElementsAre("three", "four"));
}

TEST_F(LogFileTest, StaysWhereItIsIfNoNewFileCanBeMade) {
  LogFile file = Open(0);
  std::filesystem::rename(directory_, directory_ + ".away");
  EXPECT_THAT(std::string(file.Reopen().message()),
              HasSubstr("cannot reopen " + path_ + ": No such file"));
  EXPECT_TRUE(file.Append("line\n").ok());
  EXPECT_THAT(Lines(directory_ + ".away/log"), ElementsAre("line"));
  std::filesystem::remove_all(directory_ + ".away");
}

TEST_F(LogFileTest, ProcessesThatShareAFileLoseNoLine) {
  constexpr int kProcesses = 4;
  constexpr int kLines = 2000;
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() != 0) continue;
    auto file = LogFile::Open({path_, 10'000, 20});
    bool is_ok = file.ok();
    for (int i = 0; i < kLines && is_ok; ++i)
      is_ok = file->Append(absl::StrCat(p, " ", i, "\n")).ok();
    _exit(is_ok ? 0 : 1);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = 1;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  // A rotation may come between two processes' lines, never between a line's
  // bytes; each process's lines are there once.
  std::map<int, std::vector<int>> lines_of;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    ++files;
    for (const std::string& line : Lines(entry.path())) {
      int process = -1;
      int number = -1;
      ASSERT_EQ(std::sscanf(line.c_str(), "%d %d", &process, &number), 2)
          << line;
      lines_of[process].push_back(number);
    }
  }
  EXPECT_GT(files, 2);
  for (auto& [process, lines] : lines_of) {
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines.size(), kLines);
    for (int i = 0; i < static_cast<int>(lines.size()); ++i)
      ASSERT_EQ(lines[i], i);
  }
  EXPECT_EQ(lines_of.size(), kProcesses);
}

TEST_F(LogFileTest, SaysWhyItCannotWrite) {
  const auto missing = LogFile::Open({directory_ + "/none/log", 0, 1});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/none/log: No such file or directory"));
  auto full = LogFile::Open({"/dev/full", 0, 1});
  ASSERT_TRUE(full.ok()) << full.status();
  const absl::Status status = full->Append("line\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/dev/full: No space left on device"));
}

}  // namespace
}  // namespace ringmaster
