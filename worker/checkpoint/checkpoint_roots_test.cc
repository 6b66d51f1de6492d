// Checkpoints are written and read beneath the process's roots. A program of its own: they
// are limited for good.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/files/file_roots.h"
#include "common/status/exit_code.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/checkpoint/directory_identity.h"
#include "worker/checkpoint/directory_owner.h"
#include "worker/checkpoint/export_model.h"
#include "worker/checkpoint/import_parameters.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

class CheckpointRootsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    base_ = new std::string(FreshDirectory());
    // The root is named over a link.
    fs::create_directories(*base_ + "/disk");
    fs::create_directories(*base_ + "/outside");
    fs::create_directory_symlink("disk", *base_ + "/root");
    LimitProcessFiles(FileRoots::Open({.write = {*base_ + "/root"}}).value());
  }

  static absl::Status Write(const std::string& directory, int64_t step,
                            const CheckpointWriteOptions& options = {}) {
    TestJob job;
    CheckpointContents contents = job.ContentsAt(step);
    contents.job_id = "job-1";
    const auto written = WriteCheckpoint(directory, contents, options);
    if (!written.ok()) return written.status();
    EXPECT_TRUE(written->removal.ok()) << written->removal;
    EXPECT_TRUE(written->link.ok()) << written->link;
    return absl::OkStatus();
  }

  static std::string* base_;
};

std::string* CheckpointRootsTest::base_ = nullptr;

TEST_F(CheckpointRootsTest, WorksBeneathARoot) {
  const std::string directory = *base_ + "/root/deep/job";
  EXPECT_TRUE(CheckWritable(directory).ok());
  ASSERT_TRUE(Write(directory, 10).ok());
  ASSERT_TRUE(Write(directory, 20).ok());
  // A checkpoint that is to stay, named over `latest` and in its other name.
  ASSERT_TRUE(
      Write(directory, 30, {.keep = 1, .protect = directory + "/latest"}).ok());
  EXPECT_EQ(ListCheckpoints(directory)->size(), 1u);
  ASSERT_TRUE(
      Write(directory, 40,
            {.keep = 1,
             .protect = ProcessFiles().Canonical(directory + "/latest")})
          .ok());
  EXPECT_EQ(ListCheckpoints(directory)->size(), 2u);
  EXPECT_TRUE(VerifyCheckpoint(directory + "/latest").ok());
  EXPECT_TRUE(RemoveAbandoned(directory).ok());
}

TEST_F(CheckpointRootsTest, RefusesToLeadOut) {
  fs::create_directory_symlink("../outside", *base_ + "/root/link");
  for (const std::string& directory :
       {*base_ + "/outside", *base_ + "/outside/new",
        *base_ + "/root/../outside", *base_ + "/root/link",
        *base_ + "/root/link/new"}) {
    for (const absl::Status& status :
         {CheckWritable(directory), ClaimDirectory(directory, "job-1"),
          Write(directory, 10), RemoveCheckpoint(directory, 10),
          ListCheckpoints(directory).status(), RemoveAbandoned(directory),
          ReadCheckpointManifest(directory).status(),
          ReadCheckpointManifest(directory + "/latest").status()}) {
      EXPECT_TRUE(IsOutsideRoots(status)) << directory << ": " << status;
      EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << status;
    }
    TestJob job;
    EXPECT_TRUE(IsOutsideRoots(
        ImportParameters(directory, job.plan, absl::MakeSpan(job.parameters))));
    EXPECT_TRUE(FindCompanions("", "", directory).empty());
  }
  EXPECT_TRUE(NamesIn(*base_ + "/outside").empty());
  fs::remove(*base_ + "/root/link");
}

// A checkpoint that leads out is no broken one, to be removed.
TEST_F(CheckpointRootsTest, AFileThatLeadsOutIsNotLost) {
  const std::string directory = *base_ + "/root/linked";
  ASSERT_TRUE(Write(directory, 10).ok());
  const std::string model = directory + "/step-000000010/model.safetensors";
  fs::rename(model, *base_ + "/outside/model");
  fs::create_symlink("../../../outside/model", model);
  const auto listed = ListCheckpoints(directory);
  ASSERT_TRUE(listed.ok());
  EXPECT_FALSE(listed->at(0).problem.ok());
  EXPECT_FALSE(IsLost(listed->at(0).problem)) << listed->at(0).problem;
  fs::remove(*base_ + "/outside/model");
}

}  // namespace
}  // namespace ringmaster
