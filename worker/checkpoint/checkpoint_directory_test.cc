#include "worker/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

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
    EXPECT_THAT(
        NamesIn(directory_ + "/a/b"),
        ElementsAre(MatchesRegex(".tmp-step-000000007-[0-9a-f]+-[0-9a-f]+")));
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
  // However long it takes.
  EXPECT_TRUE(
      RemoveAbandoned(directory_, absl::Now() + absl::Hours(1000)).ok());
  EXPECT_EQ(NamesIn(directory_).size(), 1u);
  EXPECT_TRUE(staging->Publish().ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
}

// As two hosts do that have not agreed on a writer.
TEST_F(CheckpointDirectoryTest, TwoWritersOfAStepDoNotTouchEachOthersFiles) {
  absl::StatusOr<StagingDirectory> first =
      StagingDirectory::Create(directory_, 7);
  ASSERT_TRUE(first.ok());
  WriteFile(first->File("x"), "first");
  {
    absl::StatusOr<StagingDirectory> second =
        StagingDirectory::Create(directory_, 7);
    ASSERT_TRUE(second.ok()) << second.status();
    WriteFile(second->File("x"), "second");
    EXPECT_TRUE(second->Publish().ok());
    EXPECT_EQ(ReadFile(directory_ + "/step-000000007/x"), "second");
    EXPECT_EQ(ReadFile(first->File("x")), "first");
  }
  EXPECT_TRUE(first->Publish().ok());
  EXPECT_EQ(ReadFile(directory_ + "/step-000000007/x"), "first");
  EXPECT_THAT(NamesIn(directory_), Contains("step-000000007"));
}

// Somebody looks for leftovers between the making of the directory and its lock.
TEST_F(CheckpointDirectoryTest, ADirectoryThatWasTakenForALeftoverIsMadeAnew) {
  FailPoint::Arm("checkpoint.create", FailPoint::Action::kHang);
  std::thread cleaner([&] {
    while (FailPoint::HangingCount("checkpoint.create") == 0)
      std::this_thread::yield();
    EXPECT_TRUE(RemoveAbandoned(directory_).ok());
    EXPECT_THAT(NamesIn(directory_), IsEmpty());
    FailPoint::DisarmAll();
  });
  absl::StatusOr<StagingDirectory> staging =
      StagingDirectory::Create(directory_, 7);
  cleaner.join();
  ASSERT_TRUE(staging.ok()) << staging.status();
  WriteFile(staging->File("x"), "x");
  EXPECT_TRUE(staging->Publish().ok());
  EXPECT_EQ(ReadFile(directory_ + "/step-000000007/x"), "x");
}

// The names in the directory that are no checkpoints.
std::vector<std::string> LeftoversIn(const std::string& directory) {
  std::vector<std::string> names = NamesIn(directory);
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string& name) {
                               return name == kLatestLink ||
                                      StepOfCheckpointName(name).has_value();
                             }),
              names.end());
  return names;
}

// Writes the checkpoint of `step` in a process of its own, which is killed at the
// `at_pass`-th pass of `fail_point`; returns whether it came so far.
bool IsKilledWriting(const std::string& directory, const TestJob& job,
                     int64_t step, const std::string& fail_point, int at_pass) {
  const pid_t child = fork();
  if (child == 0) {
    if (fail_point == "checkpoint.aside")
      FailPoint::Arm("checkpoint.exchange", FailPoint::Action::kError);
    FailPoint::Arm(fail_point, FailPoint::Action::kCrash, at_pass);
    (void)WriteCheckpoint(directory, job.ContentsAt(step), {.keep = 1});
    _exit(0);
  }
  int wait_status = 0;
  EXPECT_EQ(waitpid(child, &wait_status, 0), child);
  return WIFSIGNALED(wait_status);
}

// The last checkpoint on disk is whole wherever its writer died, also while it replaced
// one: at once if two names can be exchanged, else after the next start has cleaned
// up.
TEST_F(CheckpointDirectoryTest, AWriterKilledAnywhereLeavesAWholeCheckpoint) {
  for (const int64_t step : {10, 20}) {
    for (const char* const point :
         {"checkpoint.create", "checkpoint.open", "checkpoint.write",
          "checkpoint.fsync", "checkpoint.rename", "checkpoint.exchange",
          "checkpoint.aside", "checkpoint.published", "checkpoint.link",
          "checkpoint.link_rename", "checkpoint.fsync_directory"}) {
      for (int at_pass = 1; at_pass < 50; ++at_pass) {
        SCOPED_TRACE(absl::StrCat(point, "@", at_pass, " of step ", step));
        fs::remove_all(directory_);
        ASSERT_TRUE(WriteCheckpoint(directory_, job_.ContentsAt(10)).ok());
        const bool is_killed =
            IsKilledWriting(directory_, job_, step, point, at_pass);
        if (std::string(point) != "checkpoint.aside") {
          EXPECT_TRUE(ListCheckpoints(directory_)->at(0).problem.ok());
        }
        EXPECT_TRUE(RemoveAbandoned(directory_).ok());
        EXPECT_THAT(LeftoversIn(directory_), IsEmpty());
        const auto left = ListCheckpoints(directory_);
        ASSERT_TRUE(left.ok() && !left->empty());
        EXPECT_TRUE(VerifyCheckpoint(left->at(0).path).ok());
        EXPECT_TRUE(VerifyCheckpoint(directory_ + "/latest").ok());
        if (!is_killed) break;
        ASSERT_LT(at_pass, 49) << "does not end";
      }
    }
  }
}

// A process of our number died, or the number of another host's is alive here.
TEST_F(CheckpointDirectoryTest, AnotherHostsLeftoversGoByTheirAge) {
  const absl::Time now = absl::Now();
  // Another host's, and release 0.1's.
  const std::vector<std::string> names = {
      absl::StrCat(".tmp-step-000000007-", getppid()),
      ".tmp-step-000000008-0ddba11d-0123456789abcdef",
  };
  for (const std::string& name : names) {
    fs::create_directory(directory_ + "/" + name);
    WriteFile(directory_ + "/" + name + "/left", "x");
  }
  EXPECT_TRUE(
      RemoveAbandoned(directory_, now + kAbandonedAge - absl::Minutes(1)).ok());
  EXPECT_EQ(NamesIn(directory_), names);
  // Its directory is old, and it still writes.
  fs::last_write_time(directory_ + "/" + names[1] + "/left",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(
      RemoveAbandoned(directory_, now + kAbandonedAge + absl::Minutes(1)).ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre(names[1]));
  EXPECT_TRUE(RemoveAbandoned(directory_, now + 2 * kAbandonedAge).ok());
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
}

TEST_F(CheckpointDirectoryTest, AReplacedOneComesBackIfNothingTookItsPlace) {
  const absl::Time later = absl::Now() + 2 * kAbandonedAge;
  for (const char* const name :
       {".old-step-000000007-1",
        ".old-step-000000007-0ddba11d-0123456789abcdef"}) {
    const std::string path = absl::StrCat(directory_, "/", name);
    fs::create_directory(path);
    WriteFile(path + "/x", "old");
    EXPECT_TRUE(RemoveAbandoned(directory_, later).ok());
    EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
    fs::create_directory(path);
    EXPECT_TRUE(RemoveAbandoned(directory_, later).ok());
    EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000007"));
    EXPECT_EQ(ReadFile(directory_ + "/step-000000007/x"), "old");
    fs::remove_all(directory_ + "/step-000000007");
  }
}

// Somebody looks for leftovers between the making of the link and its name.
TEST_F(CheckpointDirectoryTest, ALinkThatWasTakenForALeftoverIsMadeAnew) {
  FailPoint::Arm("checkpoint.link_rename", FailPoint::Action::kHang);
  std::thread cleaner([&] {
    while (FailPoint::HangingCount("checkpoint.link_rename") == 0)
      std::this_thread::yield();
    EXPECT_THAT(NamesIn(directory_),
                ElementsAre(MatchesRegex(".latest-[0-9a-f]+-[0-9a-f]+")));
    EXPECT_TRUE(RemoveAbandoned(directory_).ok());
    EXPECT_THAT(NamesIn(directory_), IsEmpty());
    FailPoint::DisarmAll();
  });
  const absl::Status linked = LinkLatest(directory_, 7);
  cleaner.join();
  EXPECT_TRUE(linked.ok()) << linked;
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest"));
  EXPECT_EQ(fs::read_symlink(directory_ + "/latest"), "step-000000007");
}

TEST_F(CheckpointDirectoryTest, OnlyLinksOfWritersAreLeftLinks) {
  const std::string name = ".latest-0ddba11d-0123456789abcdef";
  const absl::Time later = absl::Now() + 2 * kAbandonedAge;
  fs::create_symlink("step-000000007", directory_ + "/" + name);
  fs::create_symlink("x", directory_ + "/.latest-mine");
  fs::create_symlink("x", directory_ + "/.latest-a-b-0123456789abcdef");
  EXPECT_TRUE(RemoveAbandoned(directory_).ok());
  EXPECT_EQ(NamesIn(directory_).size(), 3u) << "another host may be at work";
  EXPECT_TRUE(RemoveAbandoned(directory_, later).ok());
  const std::vector<std::string> others = {".latest-a-b-0123456789abcdef",
                                           ".latest-mine"};
  EXPECT_EQ(NamesIn(directory_), others);
  fs::create_directory(directory_ + "/" + name);
  EXPECT_TRUE(RemoveAbandoned(directory_, later).ok());
  EXPECT_THAT(NamesIn(directory_), Contains(name));
}

TEST_F(CheckpointDirectoryTest, ADirectoryCalledLatestStays) {
  fs::create_directory(directory_ + "/latest");
  EXPECT_EQ(LinkLatest(directory_, 7).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest"));
  EXPECT_EQ(LinkLatest(directory_ + "/absent", 7).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointDirectoryTest, FollowsOnlyTheLatestLink) {
  EXPECT_EQ(FollowLink(directory_ + "/latest"), directory_ + "/latest");
  ASSERT_TRUE(LinkLatest(directory_, 7).ok());
  for (const char* const end : {"", "/"}) {
    EXPECT_EQ(FollowLink(absl::StrCat(directory_, "/latest", end)),
              directory_ + "/step-000000007");
  }
  fs::rename(directory_ + "/latest", directory_ + "/other");
  EXPECT_EQ(FollowLink(directory_ + "/other"), directory_ + "/other");
}

TEST_F(CheckpointDirectoryTest, NamesWhatCannotBeRemoved) {
  EXPECT_EQ(RemoveCheckpoint(directory_, 7).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(RemoveAbandoned(directory_ + "/absent").ok());
}

}  // namespace
}  // namespace ringmaster
