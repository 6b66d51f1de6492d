#include "worker/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

MonotonicTime InAMinute() { return Clock::Real().Now() + absl::Minutes(1); }

class CheckpointWriterTest : public ::testing::Test {
 protected:
  ~CheckpointWriterTest() override { FailPoint::DisarmAll(); }

  CheckpointWriter::Options OptionsFor(const std::string& directory) const {
    CheckpointWriter::Options options;
    options.directory = directory;
    options.plan = &job_.plan;
    return options;
  }

  std::unique_ptr<CheckpointWriter> Make(
      const CheckpointWriter::Options& options) {
    absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer =
        CheckpointWriter::Create(options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  // Returns the outcome of a snapshot at `step` when nothing else is under way.
  CheckpointResult WriteOne(CheckpointWriter& writer, int64_t step) {
    EXPECT_TRUE(writer.Snapshot(job_.ContentsAt(step)));
    EXPECT_TRUE(writer.Flush(InAMinute()).ok());
    std::vector<CheckpointResult> results = writer.TakeResults();
    EXPECT_EQ(results.size(), 1u);
    EXPECT_EQ(results.at(0).step, step);
    return std::move(results.at(0));
  }

  // Waits until a thread hangs at the fail point; it is armed to hang.
  void AwaitHanging(const char* name) {
    const MonotonicTime deadline = InAMinute();
    while (FailPoint::HangingCount(name) == 0) {
      ASSERT_LT(Clock::Real().Now(), deadline);
      std::this_thread::yield();
    }
  }

  const std::string directory_ = FreshDirectory();
  TestJob job_;
};

TEST_F(CheckpointWriterTest, WritesACopyOfTheSnapshot) {
  const std::vector<float> parameters = job_.parameters;
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  FailPoint::Arm("checkpoint.open", FailPoint::Action::kHang);
  ASSERT_TRUE(writer->Snapshot(job_.ContentsAt(10)));
  // The training goes on.
  job_.parameters.assign(job_.parameters.size(), -1);
  job_.first_moment.assign(job_.parameters.size(), -1);
  job_.second_moment.assign(job_.parameters.size(), -1);
  FailPoint::DisarmAll();
  ASSERT_TRUE(writer->Flush(InAMinute()).ok());
  const std::vector<CheckpointResult> results = writer->TakeResults();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].status.ok()) << results[0].status;
  EXPECT_EQ(results[0].path, directory_ + "/step-000000010");
  EXPECT_GT(results[0].bytes, 0);
  EXPECT_GE(results[0].duration, absl::ZeroDuration());
  EXPECT_THAT(writer->TakeResults(), IsEmpty());

  const TestJob fresh;
  std::vector<float> read(parameters.size());
  std::vector<float> first(parameters.size());
  std::vector<float> second(parameters.size());
  ASSERT_TRUE(ReadCheckpoint(results[0].path, job_.plan,
                             {.parameters = absl::MakeSpan(read),
                              .first_moment = absl::MakeSpan(first),
                              .second_moment = absl::MakeSpan(second)})
                  .ok());
  EXPECT_EQ(read, parameters);
  EXPECT_EQ(first, fresh.first_moment);
  EXPECT_EQ(second, fresh.second_moment);
}

TEST_F(CheckpointWriterTest, SkipsASnapshotWhileOneIsWritten) {
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  FailPoint::Arm("checkpoint.fsync", FailPoint::Action::kHang);
  ASSERT_TRUE(writer->Snapshot(job_.ContentsAt(10)));
  AwaitHanging("checkpoint.fsync");
  EXPECT_FALSE(writer->Snapshot(job_.ContentsAt(20)));
  const std::vector<CheckpointResult> results = writer->TakeResults();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].step, 20);
  EXPECT_TRUE(results[0].is_skipped);
  EXPECT_EQ(results[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(results[0].status.message()),
              HasSubstr("that of step 10 is still being written"));
  EXPECT_EQ(writer->Flush(Clock::Real().Now()).code(),
            absl::StatusCode::kDeadlineExceeded);
  FailPoint::DisarmAll();
  ASSERT_TRUE(writer->Flush(InAMinute()).ok());
  EXPECT_TRUE(writer->TakeResults().at(0).status.ok());
  EXPECT_TRUE(WriteOne(*writer, 30).status.ok());
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000010", "step-000000030"));
}

TEST_F(CheckpointWriterTest, GoesOnAfterAFailure) {
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  EXPECT_TRUE(WriteOne(*writer, 1).status.ok());
  for (const char* const name : {"checkpoint.open", "checkpoint.write",
                                 "checkpoint.fsync", "checkpoint.rename"}) {
    FailPoint::Arm(name, FailPoint::Action::kError);
    const CheckpointResult result = WriteOne(*writer, 10);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable) << name;
    EXPECT_FALSE(result.is_skipped);
    EXPECT_EQ(result.path, "");
    EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000001"));
    FailPoint::Disarm(name);
  }
  EXPECT_TRUE(WriteOne(*writer, 10).status.ok());
}

TEST_F(CheckpointWriterTest, KeepsTheNewestAndTheProtected) {
  ASSERT_TRUE(WriteCheckpoint(directory_, job_.ContentsAt(1)).ok());
  CheckpointWriter::Options options = OptionsFor(directory_);
  options.keep = 2;
  options.protect = directory_ + "/step-000000001";
  const std::unique_ptr<CheckpointWriter> writer = Make(options);
  for (const int64_t step : {10, 20, 30})
    EXPECT_TRUE(WriteOne(*writer, step).removal.ok());
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000001", "step-000000020",
                          "step-000000030"));
}

// The link leads elsewhere by the time that the checkpoint is to be protected.
TEST_F(CheckpointWriterTest, ProtectsTheCheckpointThatALinkLedTo) {
  ASSERT_TRUE(WriteCheckpoint(directory_, job_.ContentsAt(1)).ok());
  CheckpointWriter::Options options = OptionsFor(directory_);
  options.keep = 1;
  options.protect = directory_ + "/latest/model.safetensors";
  const std::unique_ptr<CheckpointWriter> writer = Make(options);
  for (const int64_t step : {10, 20})
    EXPECT_TRUE(WriteOne(*writer, step).removal.ok());
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000001", "step-000000020"));
}

TEST_F(CheckpointWriterTest, SaysOnceThatThereIsNoLink) {
  fs::create_directory(directory_ + "/latest");
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  const CheckpointResult first = WriteOne(*writer, 1);
  EXPECT_TRUE(first.status.ok());
  EXPECT_EQ(first.link.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(WriteOne(*writer, 2).link.ok());
}

TEST_F(CheckpointWriterTest, RemovesWhatDeadWritersLeft) {
  std::string left;
  {
    const auto staging = StagingDirectory::Create(directory_, 7);
    ASSERT_TRUE(staging.ok());
    left = NamesIn(directory_).at(0);
  }
  fs::create_directory(directory_ + "/" + left);
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
}

TEST_F(CheckpointWriterTest, DestructorGivesUpWhatIsNotComplete) {
  std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  FailPoint::Arm("checkpoint.open", FailPoint::Action::kHang);
  ASSERT_TRUE(writer->Snapshot(job_.ContentsAt(10)));
  AwaitHanging("checkpoint.open");
  std::thread destroyer([&] { writer.reset(); });
  // The write may or may not have completed, but nothing of it may be half
  // there.
  FailPoint::DisarmAll();
  destroyer.join();
  for (const std::string& name : NamesIn(directory_)) {
    EXPECT_TRUE(name == "step-000000010" || name == "latest") << name;
    EXPECT_TRUE(VerifyCheckpoint(directory_ + "/" + name).ok());
  }
}

TEST_F(CheckpointWriterTest, FewerMomentsNeedLessMemory) {
  CheckpointWriter::Options options = OptionsFor(directory_);
  options.moment_count = 0;
  const std::unique_ptr<CheckpointWriter> writer = Make(options);
  CheckpointContents contents = job_.ContentsAt(5);
  contents.first_moment = {};
  contents.second_moment = {};
  EXPECT_TRUE(writer->Snapshot(contents));
  EXPECT_TRUE(writer->Flush(InAMinute()).ok());
  EXPECT_TRUE(writer->TakeResults().at(0).status.ok());
  EXPECT_DEATH(writer->Snapshot(job_.ContentsAt(6)), "more moments");
}

TEST_F(CheckpointWriterTest, OldResultsGoIfNobodyTakesThem) {
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  FailPoint::Arm("checkpoint.open", FailPoint::Action::kHang);
  ASSERT_TRUE(writer->Snapshot(job_.ContentsAt(0)));
  for (size_t i = 1; i <= CheckpointWriter::kMaxResults + 5; ++i)
    EXPECT_FALSE(writer->Snapshot(job_.ContentsAt(static_cast<int64_t>(i))));
  const std::vector<CheckpointResult> results = writer->TakeResults();
  ASSERT_EQ(results.size(), CheckpointWriter::kMaxResults);
  EXPECT_EQ(results[0].step, 6);
  FailPoint::DisarmAll();
  EXPECT_TRUE(writer->Flush(InAMinute()).ok());
}

// Root may write anywhere, so the test runs as nobody meanwhile.
TEST_F(CheckpointWriterTest, ReportsADirectoryThatIsNotPermitted) {
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  const bool is_root = geteuid() == 0;
  const std::unique_ptr<CheckpointWriter> writer = Make(OptionsFor(directory_));
  if (is_root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const CheckpointResult result = WriteOne(*writer, 10);
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(result.status.code(), absl::StatusCode::kPermissionDenied)
      << result.status;
  // The message names the directory, or the first one above it that may not be
  // entered.
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("cannot create /"));
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_TRUE(WriteOne(*writer, 20).status.ok());
}

// Returns "" or why a small file system cannot be mounted. Only this thread,
// and those that it starts, see it.
std::string MountSmallDisk(const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0)
    return absl::StrCat("no mount namespace: ", std::strerror(errno));
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", path.c_str(), "tmpfs", 0, "size=256k") != 0) {
    return absl::StrCat("no mount: ", std::strerror(errno));
  }
  return "";
}

TEST_F(CheckpointWriterTest, AFullDiskCostsTheNewCheckpointAlone) {
  std::string skip_reason;
  // A thread, so that the tests after this one see the old mounts.
  std::thread([&] {
    skip_reason = MountSmallDisk(directory_);
    if (!skip_reason.empty()) return;
    const std::unique_ptr<CheckpointWriter> writer =
        Make(OptionsFor(directory_));
    EXPECT_TRUE(WriteOne(*writer, 10).status.ok());
    // Something else fills the disk.
    WriteFile(directory_ + "/other", std::string(1 << 20, 'x'));
    const CheckpointResult result = WriteOne(*writer, 20);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted)
        << result.status;
    EXPECT_THAT(std::string(result.status.message()),
                HasSubstr("No space left on device"));
    EXPECT_THAT(NamesIn(directory_),
                ElementsAre("latest", "other", "step-000000010"));
    EXPECT_TRUE(VerifyCheckpoint(directory_ + "/step-000000010").ok());
    fs::remove(directory_ + "/other");
    EXPECT_TRUE(WriteOne(*writer, 30).status.ok());
  }).join();
  if (!skip_reason.empty()) GTEST_SKIP() << skip_reason;
}

}  // namespace
}  // namespace ringmaster
