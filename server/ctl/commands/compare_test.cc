#include "server/ctl/commands/compare.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job_service.pb.h"
#include "server/ctl/commands/compare_device.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Mistakes are reported before anything starts: there are no programs here.
class CompareTest : public ::testing::Test {
 protected:
  CompareTest()
      : dir_(fs::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    flags_.job_file = (dir_ / "job.yaml").string();
    flags_.out = (dir_ / "out").string();
    flags_.bin_dir = dir_.string();
    std::ofstream(flags_.job_file) << "name: small\n"
                                      "train:\n"
                                      "  model: {mlp: {window: 8}}\n"
                                      "  data: {synthetic: {samples: 512}}\n"
                                      "  optimizer: {sgd: {}}\n"
                                      "  steps: 20\n";
  }

  std::string ErrorOf(ExitCode code) {
    FakeConsole console;
    Bell bell;
    const absl::StatusOr<int> result =
        RunCompare({.console = console,
                    .clock = Clock::Real(),
                    .bell = bell,
                    .is_interrupted = [] { return false; },
                    .command = "ringctl compare"},
                   flags_);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(ExitCodeOf(result.status()), code) << result.status();
    return std::string(result.status().message());
  }

  const fs::path dir_;
  CompareFlags flags_;
};

TEST_F(CompareTest, NamesTheFlagThatIsWrong) {
  CompareFlags good = flags_;
  flags_.modes = "rings";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--modes: \"rings\" is no mode"));
  flags_ = good;
  flags_.workers = "2,100";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--workers: \"100\" is no number of workers"));
  flags_ = good;
  flags_.link = "fast";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("--link: \"fast\""));
  flags_ = good;
  flags_.variations = {"nothing"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("--vary: \"nothing\""));
}

TEST_F(CompareTest, NamesTheJobAndTheRunThatIsWrong) {
  flags_.variations = {"more:train.steps=0"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("job.yaml: ring, more with 2 workers: "));
  flags_.job_file = (dir_ / "none.yaml").string();
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("none.yaml"));
}

TEST_F(CompareTest, RefusesAMemoryRunBeforeTheFirstRun) {
  flags_.modes = "ring";
  flags_.device_memory = "1GiB";
  flags_.assignments = {"train.global_batch=8388608"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--device_memory: ring with 8388608 samples on each"));
  EXPECT_FALSE(fs::exists(flags_.out));
  // Its four steps are fewer than those of the warm-up.
  flags_.assignments = {"train.optimizer.schedule.warmup_steps=10"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("coordinator"))
      << "it gets as far as the programs";
}

TEST_F(CompareTest, RefusesOnGpusWhatTheseDoNot) {
  flags_.device = "cuda";
  const CompareFlags good = flags_;
  flags_.modes = "ring,hierarchical";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--modes: hierarchical is for workers on CPUs; on GPUs "
                        "there are auto"));
  flags_ = good;
  flags_.link = "1gbit";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--link is for workers on CPUs"));
  flags_ = good;
  flags_.is_emulated = true;
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--emulate_compute is for workers on CPUs"));
  flags_ = good;
  flags_.device_memory = "1GiB";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--device_memory is for workers on CPUs"));
  flags_ = good;
  flags_.variations = {"16-bit:train.collective.wire=float16"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("auto, 16-bit with 2 workers: train.collective.wire"));
  flags_ = good;
  flags_.variations = {"pauses:train.emulate_compute.forward=1ms"};
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("pauses with 2 workers: train.emulate_compute"));
  EXPECT_FALSE(fs::exists(flags_.out));
  flags_ = good;
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("coordinator"))
      << "it gets as far as the programs";
}

TEST_F(CompareTest, RefusesToShareAGpuThatIsNone) {
  flags_.share_gpu = true;
  EXPECT_EQ(ErrorOf(ExitCode::kUsage),
            "--share_gpu is of --device=cuda, and this is --device=cpu");
}

TEST_F(CompareTest, AClustersWorkersAreWhatTheyAre) {
  v1::Status cluster;
  const auto add = [&](v1::DeviceKind kind) {
    v1::Worker& worker = *cluster.add_workers();
    worker.set_role(v1::ROLE_WORKER);
    worker.set_state(v1::WORKER_STATE_IDLE);
    worker.mutable_device()->set_kind(kind);
  };
  EXPECT_FALSE(AreWorkersOnGpus(flags_, &cluster).value());
  add(v1::DEVICE_KIND_CUDA);
  EXPECT_TRUE(AreWorkersOnGpus(flags_, &cluster).value());
  flags_.is_emulated = true;
  EXPECT_THAT(
      std::string(AreWorkersOnGpus(flags_, &cluster).status().message()),
      HasSubstr("--emulate_compute"));
  flags_.is_emulated = false;
  add(v1::DEVICE_KIND_CPU);
  EXPECT_THAT(
      std::string(AreWorkersOnGpus(flags_, &cluster).status().message()),
      HasSubstr("idle workers on GPUs and others on CPUs"));
  // Busy workers are not asked.
  cluster.mutable_workers(0)->set_state(v1::WORKER_STATE_ASSIGNED);
  EXPECT_FALSE(AreWorkersOnGpus(flags_, &cluster).value());
  flags_.device = "cuda";
  EXPECT_THAT(
      std::string(AreWorkersOnGpus(flags_, &cluster).status().message()),
      HasSubstr("--device: the workers of a cluster"));
}

TEST_F(CompareTest, NamesADirectoryThatCannotBeWritten) {
  flags_.out = flags_.job_file + "/out";
  EXPECT_THAT(ErrorOf(ExitCode::kUsage),
              HasSubstr("--out: cannot write to the directory"));
}

TEST_F(CompareTest, NamesAProgramThatIsNotThere) {
  EXPECT_THAT(ErrorOf(ExitCode::kUsage), HasSubstr("coordinator"));
}

}  // namespace
}  // namespace ringmaster::ctl
