// Tests whole trainers on GPUs, as threads of one process: they follow the
// CPU's loss curve, ranks agree to the bit, newcomers take over, checkpoints
// move between GPUs and CPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/train/cuda/cuda_accelerator.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 16;

// Ranks that are threads of one process need a GPU each (the emulation has
// some; ranks that share one are processes, see //worker/collective/nccl).
bool HasGpus(int count) { return CudaDevice::Open(count - 1).ok(); }

std::unique_ptr<Accelerator> OpenGpu(int worker) {
  return OpenCudaAccelerator({.ordinal = worker, .tune = false}).value();
}

std::unique_ptr<Accelerator> OpenGpuWithoutGraphs(int worker) {
  return OpenCudaAccelerator(
             {.ordinal = worker, .tune = false, .use_graphs = false})
      .value();
}

v1::TrainProgram MlpProgram() { return SmallProgram(kSteps); }

v1::TrainProgram GptProgram(double dropout = 0) {
  v1::TrainProgram program = SmallProgram(kSteps);
  v1::GptSpec* const gpt = program.mutable_model()->mutable_gpt();
  gpt->set_vocabulary(256);
  gpt->set_window(16);
  gpt->set_layers(2);
  gpt->set_heads(2);
  gpt->set_width(16);
  gpt->set_dropout(dropout);
  program.set_global_batch(12);
  return program;
}

class CudaTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = CudaDevice::Open(0);
    if (absl::IsFailedPrecondition(device.status()))
      GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
  }
  ~CudaTrainingTest() override { FailPoint::DisarmAll(); }
};

// The end of a run.
struct Result {
  RunOutcome outcome;
  v1::TrainingFigures figures;
};

std::vector<Result> Train(const v1::TrainProgram& program, int ranks,
                          const TrainerWorkers::AcceleratorFactory& open) {
  TrainerWorkers workers(ranks, open);
  std::vector<int> members;
  for (int i = 0; i < ranks; ++i) members.push_back(i);
  const auto outcomes = workers.RunGeneration(1, members, program, 0, [] {});
  std::vector<Result> results;
  for (int i = 0; i < ranks; ++i) {
    results.push_back({outcomes[static_cast<size_t>(i)],
                       workers.trainer(i).progress().figures});
    EXPECT_EQ(results.back().outcome.kind, RunOutcome::Kind::kFinished)
        << results.back().outcome.status;
  }
  return results;
}

void ExpectFollows(const Result& gpu, const Result& cpu, double tolerance) {
  EXPECT_NEAR(gpu.figures.loss(), cpu.figures.loss(),
              tolerance * cpu.figures.loss());
  EXPECT_NEAR(gpu.figures.gradient_norm(), cpu.figures.gradient_norm(),
              20 * tolerance * cpu.figures.gradient_norm());
  EXPECT_TRUE(gpu.figures.has_evaluation_loss());
  EXPECT_NEAR(gpu.figures.evaluation_loss(), cpu.figures.evaluation_loss(),
              tolerance * cpu.figures.evaluation_loss());
}

TEST_F(CudaTrainingTest, FollowsTheCpusLossCurve) {
  for (v1::TrainProgram program :
       {MlpProgram(), GptProgram(), GptProgram(0.1)}) {
    // A curve is its points.
    for (const int64_t steps : {int64_t{1}, int64_t{4}, kSteps}) {
      program.set_steps(steps);
      ExpectFollows(Train(program, 1, OpenGpu)[0], Train(program, 1, {})[0],
                    1e-4);
    }
  }
}

TEST_F(CudaTrainingTest, ReducedPrecisionFollowsToo) {
  for (const v1::Precision precision :
       {v1::PRECISION_BFLOAT16, v1::PRECISION_FLOAT16, v1::PRECISION_TF32}) {
    v1::TrainProgram program = GptProgram();
    const Result cpu = Train(program, 1, {})[0];
    program.set_precision(precision);
    ExpectFollows(Train(program, 1, OpenGpu)[0], cpu, 1e-2);
  }
}

// The first loss scale is far above the largest that float16 allows for this
// loss.
TEST_F(CudaTrainingTest, Float16FindsItsLossScale) {
  v1::TrainProgram program = MlpProgram();
  program.set_precision(v1::PRECISION_FLOAT16);
  program.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
  const Result result = Train(program, 1, OpenGpu)[0];
  EXPECT_TRUE(std::isfinite(result.figures.loss()));
  EXPECT_LT(result.figures.evaluation_loss(), 5.5);
}

TEST_F(CudaTrainingTest, RanksEndWithTheSameBitsAndFollowOneRank) {
  if (!HasGpus(3)) GTEST_SKIP() << "there are fewer than three GPUs";
  const Result one = Train(GptProgram(), 1, OpenGpu)[0];
  for (const int ranks : {2, 3}) {
    const std::vector<Result> many = Train(GptProgram(), ranks, OpenGpu);
    for (const Result& result : many) {
      EXPECT_EQ(result.outcome.parameters_hash,
                many[0].outcome.parameters_hash);
      ExpectFollows(result, one, 1e-4);
    }
  }
}

TEST_F(CudaTrainingTest, MicroBatchesChangeNothingButRounding) {
  v1::TrainProgram program = GptProgram();
  const Result whole = Train(program, 1, OpenGpu)[0];
  program.set_micro_batch(5);
  ExpectFollows(Train(program, 1, OpenGpu)[0], whole, 1e-4);
}

// With buckets that are reduced while the pass goes on.
TEST_F(CudaTrainingTest, GraphsChangeNoBitOfTheResult) {
  struct Case {
    v1::TrainProgram program;
    v1::Precision precision;
  };
  for (Case test : {Case{MlpProgram(), v1::PRECISION_FLOAT16},
                    Case{GptProgram(0.1), v1::PRECISION_BFLOAT16},
                    Case{GptProgram(0.1), v1::PRECISION_FLOAT32}}) {
    test.program.set_precision(test.precision);
    test.program.set_steps(6);
    test.program.set_bucket_bytes(2 << 10);
    test.program.set_micro_batch(5);
    for (const int ranks : {1, 2}) {
      if (!HasGpus(ranks)) GTEST_SKIP() << "there are fewer than two GPUs";
      const auto hash = [&](const TrainerWorkers::AcceleratorFactory& open) {
        return Train(test.program, ranks, open)[0].outcome.parameters_hash;
      };
      const int64_t before = CudaGraph::TotalLaunches();
      const uint64_t queued = hash(OpenGpuWithoutGraphs);
      EXPECT_EQ(CudaGraph::TotalLaunches(), before);
      EXPECT_EQ(hash(OpenGpu), queued);
      // Two for each pass from the second step on, which has at least two.
      EXPECT_GE(CudaGraph::TotalLaunches() - before, ranks * 5 * 4);
    }
  }
}

TEST_F(CudaTrainingTest, AReplacedRankChangesNoBitOfTheResult) {
  if (!HasGpus(3)) GTEST_SKIP() << "there are fewer than three GPUs";
  for (const v1::Precision precision :
       {v1::PRECISION_FLOAT32, v1::PRECISION_FLOAT16}) {
    v1::TrainProgram program = MlpProgram();
    program.set_precision(precision);
    const uint64_t hash = Train(program, 3, OpenGpu)[0].outcome.parameters_hash;

    TrainerWorkers workers(3, OpenGpu);
    // All lose each other in the fifth step.
    FailPoint::Arm("train.commit_received", FailPoint::Action::kError, 13);
    const auto halted = workers.RunGeneration(1, {0, 1, 2}, program, 0, [] {});
    FailPoint::DisarmAll();
    const int64_t step =
        std::min(halted[0].complete_step, halted[2].complete_step);
    EXPECT_GE(step, 4);
    workers.Replace(1);
    const auto outcomes =
        workers.RunGeneration(2, {0, 1, 2}, program, step, [] {},
                              {.source_rank = 0, .newcomers = {1}});
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
      EXPECT_EQ(outcome.parameters_hash, hash);
    }
  }
}

TEST_F(CudaTrainingTest, SurvivorsGoOnWithoutTheLostRank) {
  if (!HasGpus(3)) GTEST_SKIP() << "there are fewer than three GPUs";
  const v1::TrainProgram program = MlpProgram();
  TrainerWorkers workers(3, OpenGpu);
  FailPoint::Arm("train.reduced", FailPoint::Action::kError, 10);
  const auto halted = workers.RunGeneration(1, {0, 1, 2}, program, 0, [] {});
  FailPoint::DisarmAll();
  const int64_t step =
      std::min(halted[0].complete_step, halted[1].complete_step);
  const auto outcomes = workers.RunGeneration(2, {0, 1}, program, step, [] {});
  const Result one = Train(program, 1, OpenGpu)[0];
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.parameters_hash, outcomes[0].parameters_hash);
  }
  EXPECT_NEAR(workers.trainer(0).progress().figures.loss(), one.figures.loss(),
              1e-4 * one.figures.loss());
}

TEST_F(CudaTrainingTest, AbortEndsAGenerationSoon) {
  if (!HasGpus(3)) GTEST_SKIP() << "there are fewer than three GPUs";
  v1::TrainProgram program = MlpProgram();
  program.set_steps(kEndless);
  TrainerWorkers workers(2, OpenGpu);
  const auto outcomes = workers.RunGeneration(1, {0, 1}, program, 0, [&] {
    workers.AwaitStep(0, 3);
    workers.trainer(0).Abort(1, "halt");
    workers.trainer(1).Abort(1, "halt");
  });
  int64_t resume_step = kEndless;
  for (const RunOutcome& outcome : outcomes) {
    // The second may see the first one go before it is aborted itself.
    EXPECT_THAT(outcome.kind, AnyOf(RunOutcome::Kind::kInterrupted,
                                    RunOutcome::Kind::kPeerFailed))
        << outcome.status;
    EXPECT_GE(outcome.complete_step, outcome.applied_step);
    resume_step = std::min(resume_step, outcome.complete_step);
  }
  const auto stopped =
      workers.RunGeneration(2, {0, 1}, program, resume_step, [&] {
        workers.AwaitStep(0, resume_step + 3);
        workers.trainer(0).RequestStop();
      });
  for (const RunOutcome& outcome : stopped) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
    EXPECT_EQ(outcome.parameters_hash, stopped[0].parameters_hash);
  }
}

TEST_F(CudaTrainingTest, CheckpointsMoveBetweenGpuAndCpu) {
  const std::string directory = ::testing::TempDir() + "/moves";
  std::filesystem::remove_all(directory);
  v1::TrainProgram program = MlpProgram();
  const Result whole = Train(program, 1, {})[0];
  program.mutable_checkpoint()->set_directory(directory);
  program.mutable_checkpoint()->set_keep(2);
  program.set_steps(kSteps / 4);
  Train(program, 1, OpenGpu);
  program.set_steps(kSteps / 2);
  Train(program, 1, {});
  program.set_steps(kSteps);
  const Result last = Train(program, 1, OpenGpu)[0];
  EXPECT_EQ(last.figures.step(), kSteps);
  ExpectFollows(last, whole, 1e-4);
}

// So does the loss scale, which fell in the first half.
TEST_F(CudaTrainingTest, Float16GoesOnFromACheckpointAsIfItHadNotEnded) {
  const std::string directory = ::testing::TempDir() + "/float16";
  std::filesystem::remove_all(directory);
  v1::TrainProgram program = MlpProgram();
  program.set_precision(v1::PRECISION_FLOAT16);
  const Result whole = Train(program, 1, OpenGpu)[0];
  program.mutable_checkpoint()->set_directory(directory);
  program.mutable_checkpoint()->set_keep(1);
  program.set_steps(kSteps / 2);
  Train(program, 1, OpenGpu);
  program.set_steps(kSteps);
  const Result resumed = Train(program, 1, OpenGpu)[0];
  EXPECT_EQ(resumed.outcome.parameters_hash, whole.outcome.parameters_hash);
}

class CudaRefusalTest : public CudaTrainingTest {
 protected:
  // Returns the status of Prepare on one rank.
  static absl::Status Refusal(const v1::TrainProgram& program) {
    TrainerWorkers workers(1, OpenGpu);
    return workers.trainer(0)
        .Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0))
        .status();
  }
};

TEST_F(CudaRefusalTest, NamesWhatIsForCpusOnly) {
  v1::TrainProgram program = MlpProgram();
  program.mutable_emulate_compute()->mutable_forward()->set_nanos(1'000'000);
  EXPECT_THAT(std::string(Refusal(program).message()),
              HasSubstr("train.emulate_compute: workers that compute on a "
                        "GPU emulate nothing; start these with --device=cpu"));
  EXPECT_EQ(ExitCodeOf(Refusal(program)), ExitCode::kUsage);
}

TEST_F(CudaRefusalTest, NamesWhatNcclDoesNotDo) {
  v1::TrainProgram program = MlpProgram();
  program.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  const auto run = [&program] {
    TrainerWorkers workers(1, OpenGpu);
    return workers.RunGeneration(1, {0}, program, 0, [] {})[0];
  };
  EXPECT_THAT(std::string(run().status.message()),
              HasSubstr("train.collective.wire: between GPUs"));
  program.mutable_collective()->clear_wire();
  program.mutable_collective()->set_algorithm(
      v1::COLLECTIVE_ALGORITHM_HALVING_DOUBLING);
  const RunOutcome outcome = run();
  EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFailed);
  EXPECT_EQ(ExitCodeOf(outcome.status), ExitCode::kUsage);
  EXPECT_THAT(std::string(outcome.status.message()),
              HasSubstr("train.collective.algorithm: between GPUs"));
}

TEST_F(CudaRefusalTest, CpusRefuseWhatIsForGpus) {
  v1::TrainProgram program = MlpProgram();
  program.set_precision(v1::PRECISION_FLOAT16);
  TrainerWorkers workers(1);
  const absl::Status status =
      workers.trainer(0)
          .Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0))
          .status();
  EXPECT_EQ(status.message(),
            "train.precision: workers compute float16 on GPUs only; start them "
            "with --device=cuda");
}

TEST_F(CudaRefusalTest, SaysThatAJobIsTooLargeForTheGpu) {
  v1::TrainProgram program = GptProgram();
  program.mutable_model()->mutable_gpt()->set_window(4096);
  program.mutable_model()->mutable_gpt()->set_width(1024);
  program.set_global_batch(4096);
  program.mutable_data()->mutable_synthetic()->set_samples(8192);
  const absl::Status status = Refusal(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes free"));
}

// A worker on a GPU and one on a CPU are told apart before they meet.
TEST_F(CudaRefusalTest, APlanOnAGpuIsNotThatOfACpu) {
  TrainerWorkers gpu(1, OpenGpu);
  TrainerWorkers cpu(1);
  const auto on_gpu =
      gpu.trainer(0).Prepare(SpecOf(MlpProgram()), gpu.Assign(1, {0}, 0, 0));
  const auto on_cpu =
      cpu.trainer(0).Prepare(SpecOf(MlpProgram()), cpu.Assign(1, {0}, 0, 0));
  ASSERT_TRUE(on_gpu.ok() && on_cpu.ok());
  EXPECT_NE(on_gpu->plan_hash, on_cpu->plan_hash);
  EXPECT_THAT(on_gpu->summary, EndsWith(", float32 on a GPU"));
  EXPECT_THAT(on_cpu->summary, EndsWith(", float32 on a CPU"));
}

TEST_F(CudaRefusalTest, AJobThatNamesNoPrecisionGetsTheDevices) {
  v1::TrainProgram program = MlpProgram();
  program.clear_precision();
  TrainerWorkers gpu(1, OpenGpu);
  TrainerWorkers cpu(1);
  const auto on_gpu =
      gpu.trainer(0).Prepare(SpecOf(program), gpu.Assign(1, {0}, 0, 0));
  const auto on_cpu =
      cpu.trainer(0).Prepare(SpecOf(program), cpu.Assign(1, {0}, 0, 0));
  ASSERT_TRUE(on_gpu.ok() && on_cpu.ok());
  EXPECT_THAT(on_gpu->summary, EndsWith(", bfloat16 on a GPU"));
  EXPECT_THAT(on_cpu->summary, EndsWith(", float32 on a CPU"));
}

}  // namespace
}  // namespace ringmaster
