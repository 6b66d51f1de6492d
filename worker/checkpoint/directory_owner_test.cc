#include "worker/checkpoint/directory_owner.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/transport/unique_fd.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

TEST(DirectoryOwnerTest, AJobIdBeginsWithTheJobsName) {
  EXPECT_EQ(JobNameOf("gpt2-7"), "gpt2");
  EXPECT_EQ(JobNameOf("gpt2-small-12"), "gpt2-small");
  for (const char* const text :
       {"", "gpt2", "gpt2-", "-7", "gpt2-x", "gpt2-7\n", "GPT-7", "a b-7",
        "\x1b[2J-7", "a\nb-7", "../a-7", "\xc3\xa4-7"})
    EXPECT_EQ(JobNameOf(text), "") << text;
}

TEST(DirectoryOwnerTest, ADirectoryBelongsToTheJobThatBeganIt) {
  const std::string directory = FreshDirectory() + "/checkpoints/deep";
  ASSERT_TRUE(ClaimDirectory(directory, "first-3").ok());
  EXPECT_EQ(ReadFile(directory + "/.owner"), "first-3\n");
  // Submitted again, it is the same owner.
  EXPECT_TRUE(ClaimDirectory(directory, "first-4").ok());
  EXPECT_EQ(ReadFile(directory + "/.owner"), "first-3\n");
  const absl::Status refused = ClaimDirectory(directory, "second-5");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsOthersDirectory(refused));
  EXPECT_EQ(
      refused.message(),
      directory +
          " belongs to job first-3, which began it, and not to second-5: "
          "name the job first to go on with its checkpoints, give another "
          "directory, or remove " +
          directory + "/.owner to hand it over");
  fs::remove(directory + "/.owner");
  EXPECT_TRUE(ClaimDirectory(directory, "second-5").ok());
}

TEST(DirectoryOwnerTest, OneOfManyJobsGetsIt) {
  const std::string directory = FreshDirectory();
  // One that a crash of the machine left empty counts as none.
  WriteFile(directory + "/.owner", "");
  std::vector<int> got(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto name = absl::StrCat("job", std::string(1, 'a' + i), "-1");
      got[i] = ClaimDirectory(directory, name).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(got.begin(), got.end(), 1), 1);
  EXPECT_EQ(NamesIn(directory), std::vector<std::string>{".owner"});
}

// Whoever may open the file may lock it.
TEST(DirectoryOwnerTest, AnothersLockHoldsUpNobodyForEver) {
  const std::string directory = FreshDirectory();
  WriteFile(directory + "/.owner", "");
  const UniqueFd held(open((directory + "/.owner").c_str(), O_RDONLY));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  const absl::Status status = ClaimDirectory(directory, "first-1");
  EXPECT_EQ(status.message(),
            "cannot lock " + directory + "/.owner: Connection timed out");
  EXPECT_EQ(NamesIn(directory), std::vector<std::string>{".owner"});
}

TEST(DirectoryOwnerTest, AFailureLeavesNothing) {
  const std::string directory = FreshDirectory();
  for (const char* point : {"checkpoint.owner", "checkpoint.fsync_directory"}) {
    FailPoint::Arm(point, FailPoint::Action::kError);
    const absl::Status status = ClaimDirectory(directory, "job-1");
    FailPoint::DisarmAll();
    EXPECT_NE(status.message().find(directory), std::string::npos) << status;
    EXPECT_TRUE(ClaimDirectory(directory, "job-1").ok());
    fs::remove(directory + "/.owner");
    EXPECT_TRUE(NamesIn(directory).empty());
  }
}

TEST(DirectoryOwnerTest, NamesAFileThatHoldsNone) {
  const std::string directory = FreshDirectory();
  for (const char* const text : {"nobody\n", "\x1b]0;title\x07-1\n"}) {
    WriteFile(directory + "/.owner", text);
    const absl::Status status = ClaimDirectory(directory, "job-1");
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status.message(),
              directory + "/.owner holds no job's id; remove it");
  }
}

TEST(DirectoryOwnerTest, ADirectoryInItsPlaceIsNobodys) {
  const std::string directory = FreshDirectory();
  fs::create_directory(directory + "/.owner");
  const absl::Status status = ClaimDirectory(directory, "job-1");
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(IsOthersDirectory(status)) << status;
}

}  // namespace
}  // namespace ringmaster
