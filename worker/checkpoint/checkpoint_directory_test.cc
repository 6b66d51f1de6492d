#include "worker/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

TEST(CheckpointNameTest, IsTheStepAndBack) {
  EXPECT_EQ(CheckpointName(0), "step-000000000");
  EXPECT_EQ(CheckpointName(120), "step-000000120");
  EXPECT_EQ(CheckpointName(1'234'567'890'123), "step-1234567890123");
  for (const int64_t step : {int64_t{0}, int64_t{7}, int64_t{1} << 62})
    EXPECT_EQ(StepOfCheckpointName(CheckpointName(step)), step);
  for (const char* const name :
       {"", "step-", "step-120", "step-0000001200", "step-00000012x",
        "step--00000012", "xstep-000000120", ".tmp-step-000000120-1"}) {
    EXPECT_EQ(StepOfCheckpointName(name), std::nullopt) << name;
  }
}

class CheckpointDirectoryTest : public ::testing::Test {
 protected:
  ~CheckpointDirectoryTest() override { FailPoint::DisarmAll(); }
  const std::string directory_ = FreshDirectory();
  TestJob job_;
};

TEST_F(CheckpointDirectoryTest, StagingGoesUnlessPublished) {
  {
    const absl::StatusOr<StagingDirectory> staging =
        StagingDirectory::Create(directory_ + "/a/b", 7);
    ASSERT_TRUE(staging.ok()) << staging.status();
    WriteFile(staging->File("x"), "x");
    EXPECT_THAT(NamesIn(directory_ + "/a/b"),
                ElementsAre(absl::StrCat(".tmp-step-000000007-", getpid())));
  }
  EXPECT_THAT(NamesIn(directory_ + "/a/b"), IsEmpty());
}

TEST_F(CheckpointDirectoryTest, AnEmptyPathIsNotTheRoot) {
  EXPECT_EQ(StagingDirectory::Create("", 7).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointDirectoryTest, WorkOfTheLivingIsNotAbandoned) {
  absl::StatusOr<StagingDirectory> staging =
      StagingDirectory::Create(directory_, 7);
  ASSERT_TRUE(staging.ok());
  EXPECT_TRUE(RemoveAbandoned(directory_).ok());
  EXPECT_EQ(NamesIn(directory_).size(), 1u);
  // It is not taken over either.
  EXPECT_EQ(StagingDirectory::Create(directory_, 7).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(staging->Publish().ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
}

// A process is killed at each of these places.
TEST_F(CheckpointDirectoryTest, WhatTheKilledLeaveIsIgnoredAndRemoved) {
  ASSERT_TRUE(WriteCheckpoint(directory_, job_.ContentsAt(10)).ok());
  for (const char* const name : {"checkpoint.open", "checkpoint.write",
                                 "checkpoint.fsync", "checkpoint.rename"}) {
    const pid_t child = fork();
    if (child == 0) {
      FailPoint::Arm(name, FailPoint::Action::kCrash);
      (void)WriteCheckpoint(directory_, job_.ContentsAt(20), {.keep = 1});
      _exit(0);
    }
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << name;
    EXPECT_THAT(NamesIn(directory_),
                Contains(absl::StrCat(".tmp-step-000000020-", child)));
    EXPECT_EQ(ListCheckpoints(directory_)->size(), 1u);
    EXPECT_TRUE(RemoveAbandoned(directory_).ok());
    EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000010"));
  }
}

// A process of our number died, or the number of another host's is alive here.
TEST_F(CheckpointDirectoryTest, TheLockTellsAndNotTheNumber) {
  const std::string mine =
      absl::StrCat(directory_, "/.tmp-step-000000007-", getpid());
  fs::create_directory(mine);
  WriteFile(mine + "/left", "");
  {
    const absl::StatusOr<StagingDirectory> staging =
        StagingDirectory::Create(directory_, 7);
    ASSERT_TRUE(staging.ok()) << staging.status();
    EXPECT_THAT(NamesIn(mine), IsEmpty());
  }
  fs::create_directory(
      absl::StrCat(directory_, "/.tmp-step-000000007-", getppid()));
  EXPECT_TRUE(RemoveAbandoned(directory_).ok());
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
}

TEST_F(CheckpointDirectoryTest, AReplacedOneComesBackIfNothingTookItsPlace) {
  fs::create_directory(directory_ + "/.old-step-000000007-1");
  WriteFile(directory_ + "/.old-step-000000007-1/x", "old");
  EXPECT_TRUE(RemoveAbandoned(directory_).ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
  fs::create_directory(directory_ + "/.old-step-000000007-1");
  EXPECT_TRUE(RemoveAbandoned(directory_).ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
  EXPECT_EQ(ReadFile(directory_ + "/step-000000007/x"), "old");
}

TEST_F(CheckpointDirectoryTest, NamesWhatCannotBeRemoved) {
  EXPECT_EQ(RemoveCheckpoint(directory_, 7).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(RemoveAbandoned(directory_ + "/absent").ok());
}

}  // namespace
}  // namespace ringmaster
