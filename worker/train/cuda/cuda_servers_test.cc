// Tests workers on GPUs whose parameters servers hold, with whole trainers as
// threads of one process: they follow CPUs with the same servers, hold equal
// bits, and lose none when they are interrupted and replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/clock/monotonic_time.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "common/trace/trace.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/train/cuda/cuda_accelerator.h"
#include "worker/train/testing/server_job.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

constexpr int64_t kSteps = 16;

std::unique_ptr<Accelerator> OpenGpu(int worker) {
  return OpenCudaAccelerator({.ordinal = worker, .tune = false}).value();
}

// `servers` of 0: the workers hold the parameters.
v1::TrainProgram Program(int servers) {
  v1::TrainProgram program = SmallProgram(kSteps);
  v1::ParameterServerSpec& spec = *program.mutable_parameter_server();
  if (servers == 0) {
    spec.set_colocated(true);
  } else {
    spec.set_servers(servers);
  }
  spec.set_deterministic(true);
  return program;
}

v1::TrainProgram WithConsistency(v1::TrainProgram program,
                                 v1::Consistency consistency) {
  v1::ParameterServerSpec& spec = *program.mutable_parameter_server();
  spec.set_deterministic(false);
  spec.set_consistency(consistency);
  if (consistency == v1::CONSISTENCY_SSP) spec.set_staleness(2);
  return program;
}

// The results of a run.
struct Result {
  std::vector<RunOutcome> outcomes;  // workers', then servers'
  v1::TrainingFigures figures;       // rank 0's
};

Result Train(const v1::TrainProgram& program, const ServerJob::Options& options,
             const TrainerWorkers::AcceleratorFactory& open) {
  ServerJob job(options, open);
  Result result;
  result.outcomes = job.RunGeneration(program, [] {});
  for (const RunOutcome& outcome : result.outcomes)
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
  EXPECT_EQ(result.outcomes[0].parameters_hash,
            result.outcomes[1].parameters_hash);
  result.figures = job.trainer(0).progress().figures;
  return result;
}

void ExpectFollows(const Result& gpu, const Result& cpu, double tolerance) {
  EXPECT_NEAR(gpu.figures.loss(), cpu.figures.loss(),
              tolerance * cpu.figures.loss());
  EXPECT_NEAR(gpu.figures.gradient_norm(), cpu.figures.gradient_norm(),
              20 * tolerance * cpu.figures.gradient_norm());
  EXPECT_NEAR(gpu.figures.evaluation_loss(), cpu.figures.evaluation_loss(),
              tolerance * cpu.figures.evaluation_loss());
}

class CudaServersTest : public ::testing::Test {
 protected:
  // Ranks that are threads of one process need a GPU each.
  void SetUp() override {
    const auto device = CudaDevice::Open(0);
    if (absl::IsFailedPrecondition(device.status()))
      GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    if (!CudaDevice::Open(1).ok()) GTEST_SKIP() << "there is one GPU only";
  }
  ~CudaServersTest() override { FailPoint::DisarmAll(); }
};

TEST_F(CudaServersTest, FollowsTheCpusLossCurve) {
  for (const int servers : {0, 1, 2}) {
    v1::TrainProgram program = Program(servers);
    for (const int64_t steps : {int64_t{1}, int64_t{4}, kSteps}) {
      program.set_steps(steps);
      const ServerJob::Options options = {.workers = 2, .servers = servers};
      ExpectFollows(Train(program, options, OpenGpu),
                    Train(program, options, {}), 1e-4);
    }
  }
}

// Copies have a stream of their own for this.
TEST_F(CudaServersTest, PushesRunBesideTheBackwardPass) {
  v1::TrainProgram program = Program(1);
  program.set_bucket_bytes(1 << 10);
  ServerJob job({.workers = 2, .servers = 1}, OpenGpu);
  job.RunGeneration(program, [] {});
  std::map<int64_t, MonotonicTime> backward_ends;  // by step
  const std::vector<TraceSpan> spans = job.trainer(0).trace().Spans();
  for (const TraceSpan& span : spans) {
    if (std::string_view(span.name) == "backward")
      backward_ends[span.step] = span.end;
  }
  ASSERT_EQ(backward_ends.size(), kSteps);
  int beside = 0;
  for (const TraceSpan& span : spans) {
    if (std::string_view(span.name) != "push_pull") continue;
    beside += span.start < backward_ends.at(span.step) ? 1 : 0;
  }
  // Other processes on the processor may hold up the thread that watches
  // copies.
  EXPECT_GT(beside, kSteps / 2);
}

TEST_F(CudaServersTest, FollowsWithClippingWireAndMicroBatches) {
  v1::TrainProgram program = Program(2);
  program.mutable_optimizer()->mutable_adamw()->set_clip_norm(0.5);
  program.set_micro_batch(3);
  const ServerJob::Options options = {.workers = 2, .servers = 2};
  ExpectFollows(Train(program, options, OpenGpu), Train(program, options, {}),
                1e-4);
  program.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  ExpectFollows(Train(program, options, OpenGpu), Train(program, options, {}),
                1e-2);
}

TEST_F(CudaServersTest, WorkersMayRunAheadOfEachOther) {
  for (const v1::Consistency consistency :
       {v1::CONSISTENCY_SSP, v1::CONSISTENCY_ASYNC}) {
    // The steps go past an agreement step, where all fetch the parameters anew.
    v1::TrainProgram program = WithConsistency(Program(1), consistency);
    program.set_steps(60);
    program.set_evaluate_every(7);
    const ServerJob::Options options = {.workers = 2, .servers = 1};
    const Result cpu = Train(program, options, {});
    const Result gpu = Train(program, options, OpenGpu);
    EXPECT_NEAR(gpu.figures.evaluation_loss(), cpu.figures.evaluation_loss(),
                0.1 * cpu.figures.evaluation_loss());
  }
}

TEST_F(CudaServersTest, GoesOnAfterAHaltWithoutLosingABit) {
  for (const int servers : {0, 2}) {
    v1::TrainProgram program = Program(servers);
    program.set_steps(60);
    const ServerJob::Options options = {.workers = 2, .servers = servers};
    const Result whole = Train(program, options, OpenGpu);
    ServerJob job(options, OpenGpu);
    for (const int64_t step : {5, 11, 30}) {
      const auto outcomes = job.RunUntilStep(program, /*member=*/1, step);
      for (const RunOutcome& outcome : outcomes)
        EXPECT_FALSE(outcome.status.ok());
      EXPECT_GE(job.resume_step(), step);
    }
    for (const RunOutcome& outcome : job.RunGeneration(program, [] {}))
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(job.trainer(0).progress().figures.loss(), whole.figures.loss());
  }
}

// The halt comes between pushes: pushes of a step that did not end do not
// count, in whatever order copies end.
TEST_F(CudaServersTest, AHaltInTheMiddleOfAStepChangesNoBit) {
  v1::TrainProgram program = Program(1);
  program.set_bucket_bytes(1 << 10);
  const ServerJob::Options options = {.workers = 2, .servers = 1};
  const uint64_t hash =
      Train(program, options, OpenGpu).outcomes[0].parameters_hash;
  for (const int after : {3, 8, 13, 21}) {
    ServerJob job(options, OpenGpu);
    FailPoint::Arm("train.bucket_ready", FailPoint::Action::kError, after);
    for (const RunOutcome& outcome : job.RunGeneration(program, [] {}))
      EXPECT_NE(outcome.kind, RunOutcome::Kind::kFinished);
    FailPoint::DisarmAll();
    const auto outcomes = job.RunGeneration(program, [] {});
    for (int worker = 0; worker < 2; ++worker) {
      const RunOutcome& outcome = outcomes[static_cast<size_t>(worker)];
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
      EXPECT_EQ(outcome.parameters_hash, hash);
    }
  }
}

TEST_F(CudaServersTest, ANewcomerHasItAllFromTheServers) {
  v1::TrainProgram program = Program(2);
  program.set_steps(40);
  const ServerJob::Options options = {
      .workers = 2, .servers = 2, .replicas = 1};
  const uint64_t hash =
      Train(program, options, OpenGpu).outcomes[0].parameters_hash;
  ServerJob job(options, OpenGpu);
  job.RunUntilStep(program, /*member=*/0, 8);
  job.Replace(1);
  job.RunUntilStep(program, /*member=*/0, 20);
  job.Replace(job.server(0));
  EXPECT_GT(job.resume_step(), 0);
  const auto outcomes = job.RunGeneration(program, [] {});
  for (const RunOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
  for (int worker = 0; worker < 2; ++worker)
    EXPECT_EQ(outcomes[static_cast<size_t>(worker)].parameters_hash, hash);
}

// Checkpoints hold the servers' state, moments too, and a CPU goes on from one.
TEST_F(CudaServersTest, CheckpointsMoveBetweenGpuAndCpu) {
  const std::string directory = ::testing::TempDir() + "/servers_move";
  std::filesystem::remove_all(directory);
  const ServerJob::Options options = {.workers = 2, .servers = 1};
  v1::TrainProgram program = Program(1);
  const Result whole = Train(program, options, {});
  program.mutable_checkpoint()->set_directory(directory);
  program.mutable_checkpoint()->set_keep(2);
  program.mutable_checkpoint()->set_every_steps(2);
  program.set_steps(kSteps / 4);
  Train(program, options, OpenGpu);
  program.set_steps(kSteps / 2);
  Train(program, options, {});
  program.set_steps(kSteps);
  const Result last = Train(program, options, OpenGpu);
  EXPECT_EQ(last.figures.step(), kSteps);
  ExpectFollows(last, whole, 1e-4);
}

// The updates are left out, up to as many in a row as the job allows.
TEST_F(CudaServersTest, WhatIsNotFiniteIsRefused) {
  v1::TrainProgram program = Program(1);
  program.mutable_optimizer()->mutable_adamw()->set_learning_rate(1e30);
  program.mutable_non_finite()->set_max_in_a_row(3);
  ServerJob job({.workers = 2, .servers = 1}, OpenGpu);
  const auto outcomes = job.RunGeneration(program, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFailed);
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              ::testing::HasSubstr("was not finite for 3 steps in a row"));
}

TEST_F(CudaServersTest, RefusesFloat16) {
  v1::TrainProgram program = Program(1);
  program.set_precision(v1::PRECISION_FLOAT16);
  TrainerWorkers workers(1, OpenGpu);
  const absl::Status status =
      workers.trainer(0)
          .Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0))
          .status();
  EXPECT_EQ(status.message(),
            "train.precision: float16 scales its gradients, which "
            "train.parameter_server does not know of; use bfloat16");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

}  // namespace
}  // namespace ringmaster
