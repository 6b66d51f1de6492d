// Whole trainers as threads of one process: interruption, the next generation,
// agreed ends, and errors of their own.
#include "worker/train/step/job_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobTrainerTest, FinishesWithEqualParametersAndAnEvaluation) {
  TrainerWorkers workers(3);
  const auto outcomes =
      workers.RunGeneration(1, {0, 1, 2}, SmallProgram(30), 0, [] {});
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.applied_step, 30);
    EXPECT_EQ(outcome.parameters_hash, outcomes[0].parameters_hash);
  }
  const v1::TrainingFigures figures = workers.trainer(1).progress().figures;
  EXPECT_TRUE(figures.has_evaluation_loss());
  EXPECT_EQ(figures.evaluation_step(), 30);
  EXPECT_GT(figures.payload_sent_bytes(), 0);
}

TEST(JobTrainerTest, FiguresTellHowGradientsAreReduced) {
  TrainerWorkers workers(3);
  workers.RunGeneration(1, {0, 1, 2}, SmallProgram(30), 0, [] {});
  v1::TrainingFigures figures = workers.trainer(1).progress().figures;
  EXPECT_GT(FromProto(figures.all_reduce_duration()), absl::ZeroDuration());
  EXPECT_GT(FromProto(figures.predicted_all_reduce_duration()),
            absl::ZeroDuration());
  EXPECT_FALSE(figures.all_reduce_algorithms().empty());
  EXPECT_GE(figures.awaited_ratio(), 0);
  EXPECT_LE(figures.awaited_ratio(), 1);
  EXPECT_NE(figures.awaited_rank(), 1);  // nobody waits for itself

  TrainerWorkers others(3);
  v1::TrainProgram program = SmallProgram(30);
  program.mutable_collective()->set_algorithm(v1::COLLECTIVE_ALGORITHM_RING);
  program.mutable_collective()->set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  program.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  for (const RunOutcome& outcome :
       others.RunGeneration(1, {0, 1, 2}, program, 0, [] {})) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
  }
  const int64_t whole_bytes = figures.payload_theory_bytes();
  figures = others.trainer(1).progress().figures;
  EXPECT_THAT(figures.all_reduce_algorithms(),
              ElementsAre(v1::COLLECTIVE_ALGORITHM_RING));
  // Half of the bytes, and the records that are exchanged beside the gradients.
  EXPECT_LT(figures.payload_sent_bytes(), 0.7 * whole_bytes);
}

TEST(JobTrainerTest, AloneNothingIsReducedAndNobodyAwaited) {
  TrainerWorkers workers(1);
  v1::TrainProgram program = SmallProgram(kEndless);
  const auto outcomes = workers.RunGeneration(1, {0}, program, 0, [&] {
    workers.AwaitStep(0, 5);
    workers.trainer(0).RequestStop();
  });
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kStopped) << outcomes[0].status;
  const v1::TrainingFigures figures = workers.trainer(0).progress().figures;
  EXPECT_EQ(FromProto(figures.predicted_all_reduce_duration()),
            absl::ZeroDuration());
  EXPECT_TRUE(figures.all_reduce_algorithms().empty());
  EXPECT_EQ(figures.awaited_rank(), -1);
}

// Mappings of gradients that this process has, its own and those of peers.
int CountSharedGradients() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("ringmaster gradients") != std::string::npos;
  return count;
}

TEST(JobTrainerTest, GradientsAreReadInPlaceAndWhereTheyCannotBeAllIsTheSame) {
  const auto run = [](int* mappings) {
    TrainerWorkers workers(2);
    return workers.RunGeneration(1, {0, 1}, SmallProgram(kEndless), 0, [&] {
      workers.AwaitStep(0, 3);
      *mappings = CountSharedGradients();
      workers.trainer(0).RequestStop();
    });
  };
  int mappings = 0;
  for (const RunOutcome& outcome : run(&mappings))
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
  EXPECT_EQ(mappings, 4);  // everybody's own, and its peer's

  FailPoint::Arm("shared_allocator.allocate", FailPoint::Action::kError);
  const absl::Cleanup disarm = [] { FailPoint::DisarmAll(); };
  for (const RunOutcome& outcome : run(&mappings))
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
  EXPECT_EQ(mappings, 0);
}

// This is the heart of recovery: interrupted anywhere, the survivors settle on
// the smallest complete step and go on with fewer ranks.
TEST(JobTrainerTest, SurvivorsGoOnFromTheSmallestCompleteStep) {
  TrainerWorkers workers(3);
  const v1::TrainProgram endless = SmallProgram(kEndless);
  const auto halted = workers.RunGeneration(1, {0, 1, 2}, endless, 0, [&] {
    workers.AwaitStep(0, 10);
    for (int worker : {0, 1, 2})
      workers.trainer(worker).Abort(1, "a peer was lost");
  });
  int64_t resume_step = INT64_MAX;
  for (const RunOutcome& outcome : halted) {
    EXPECT_EQ(outcome.kind == RunOutcome::Kind::kFailed, false)
        << outcome.status;
    EXPECT_GE(outcome.applied_step, 9);
    EXPECT_LE(outcome.complete_step - outcome.applied_step, 1);
    resume_step = std::min(resume_step, outcome.complete_step);
  }
  for (const RunOutcome& outcome : halted)
    EXPECT_LE(outcome.applied_step, resume_step);

  const auto resumed =
      workers.RunGeneration(2, {0, 2}, endless, resume_step, [&] {
        workers.AwaitStep(0, resume_step + 10);
        workers.trainer(0).RequestStop();
      });
  EXPECT_EQ(resumed[0].kind, RunOutcome::Kind::kStopped) << resumed[0].status;
  EXPECT_EQ(resumed[1].kind, RunOutcome::Kind::kStopped) << resumed[1].status;
  EXPECT_EQ(resumed[0].applied_step, resumed[1].applied_step);
  EXPECT_EQ(resumed[0].parameters_hash, resumed[1].parameters_hash);
}

// A rank that was cut off between the reduction and the records makes the same
// update as those that were not.
TEST(JobTrainerTest, AStepThatIsCompleteButNotAppliedIsAppliedOnResume) {
  TrainerWorkers workers(2);
  const v1::TrainProgram program = SmallProgram(20);
  FailPoint::Arm("train.commit_received", FailPoint::Action::kError,
                 /*at_pass=*/11);
  const auto cut = workers.RunGeneration(1, {0, 1}, program, 0, [] {});
  FailPoint::DisarmAll();
  ASSERT_EQ(cut[0].kind, RunOutcome::Kind::kPeerFailed) << cut[0].status;
  ASSERT_EQ(cut[1].kind, RunOutcome::Kind::kPeerFailed) << cut[1].status;
  EXPECT_EQ(cut[0].complete_step, cut[0].applied_step + 1);
  const int64_t resume_step =
      std::min(cut[0].complete_step, cut[1].complete_step);
  const auto resumed =
      workers.RunGeneration(2, {0, 1}, program, resume_step, [] {});
  ASSERT_EQ(resumed[0].kind, RunOutcome::Kind::kFinished) << resumed[0].status;

  TrainerWorkers undisturbed(2);
  const auto whole = undisturbed.RunGeneration(1, {0, 1}, program, 0, [] {});
  EXPECT_EQ(resumed[0].parameters_hash, whole[0].parameters_hash);
  EXPECT_EQ(resumed[1].parameters_hash, whole[0].parameters_hash);
}

// Wherever a step is cut off, no step is lost or made twice.
TEST(JobTrainerTest, AStepThatIsCutOffAnywhereIsMadeOnce) {
  const v1::TrainProgram program = SmallProgram(20);
  TrainerWorkers undisturbed(2);
  const auto whole = undisturbed.RunGeneration(1, {0, 1}, program, 0, [] {});
  for (const char* const point :
       {"train.bucket_ready", "train.reduced", "train.commit_send",
        "train.before_apply", "train.after_apply"}) {
    SCOPED_TRACE(point);
    TrainerWorkers workers(2);
    FailPoint::Arm(point, FailPoint::Action::kError, /*at_pass=*/8);
    const auto cut = workers.RunGeneration(1, {0, 1}, program, 0, [] {});
    FailPoint::DisarmAll();
    ASSERT_EQ(cut[0].kind, RunOutcome::Kind::kPeerFailed) << cut[0].status;
    ASSERT_EQ(cut[1].kind, RunOutcome::Kind::kPeerFailed) << cut[1].status;
    const int64_t resume_step =
        std::min(cut[0].complete_step, cut[1].complete_step);
    ASSERT_LE(std::max(cut[0].applied_step, cut[1].applied_step), resume_step);
    const auto resumed =
        workers.RunGeneration(2, {0, 1}, program, resume_step, [] {});
    ASSERT_EQ(resumed[0].kind, RunOutcome::Kind::kFinished)
        << resumed[0].status;
    EXPECT_EQ(resumed[0].parameters_hash, whole[0].parameters_hash);
    EXPECT_EQ(resumed[1].parameters_hash, whole[0].parameters_hash);
  }
}

TEST(JobTrainerTest, AFailPointLosesAnAbort) {
  TrainerWorkers workers(1);
  FailPoint::Arm("train.abort", FailPoint::Action::kError);
  workers.trainer(0).Abort(1, "halted at once");
  FailPoint::DisarmAll();
  const auto outcomes =
      workers.RunGeneration(1, {0}, SmallProgram(5), 0, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
}

TEST(JobTrainerTest, RefusesToResumeAtAStepItDoesNotHold) {
  TrainerWorkers workers(1);
  const auto outcomes =
      workers.RunGeneration(1, {0}, SmallProgram(5), 0, [] {});
  EXPECT_EQ(outcomes[0].applied_step, 5);
  const auto agreement = workers.trainer(0).Prepare(
      SpecOf(SmallProgram(5)), workers.Assign(2, {0}, 0, 4));
  EXPECT_EQ(agreement.status().code(), absl::StatusCode::kFailedPrecondition)
      << agreement.status();
}

TEST(JobTrainerTest, AllRanksPauseAfterTheSameStepWhenOneWantsToLeave) {
  TrainerWorkers workers(3);
  const auto outcomes =
      workers.RunGeneration(1, {0, 1, 2}, SmallProgram(kEndless), 0, [&] {
        workers.AwaitStep(0, 3);
        workers.trainer(1).RequestDrain();
      });
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kDrained) << outcome.status;
    EXPECT_EQ(outcome.applied_step, outcomes[0].applied_step);
    EXPECT_EQ(outcome.complete_step, outcome.applied_step);
  }
}

TEST(JobTrainerTest, ALostPeerEndsTheGenerationAndIsNamed) {
  TrainerWorkers workers(2);
  FailPoint::Arm("train.step", FailPoint::Action::kError, /*at_pass=*/15);
  const auto outcomes =
      workers.RunGeneration(1, {0, 1}, SmallProgram(kEndless), 0, [] {});
  FailPoint::DisarmAll();
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kPeerFailed) << outcome.status;
  }
}

TEST(JobTrainerTest, AnAbortBeforeTheGenerationBeginsStillCounts) {
  TrainerWorkers workers(1);
  workers.trainer(0).Abort(1, "halted at once");
  const auto outcomes =
      workers.RunGeneration(1, {0}, SmallProgram(kEndless), 0, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kInterrupted)
      << outcomes[0].status;
}

// A halt must not wait for gigabytes to be read: a worker that is silent for
// the halt's budget is evicted.
TEST(JobTrainerTest, AnAbortEndsTheReadingOfData) {
  const std::string path = ::testing::TempDir() + "/abort_while_reading.txt";
  std::ofstream(path) << std::string(1000, 'x');
  TrainerWorkers workers(1);
  v1::TrainProgram program = SmallProgram(10);
  program.mutable_data()->mutable_text()->set_path(path);
  workers.trainer(0).Abort(1, "halted");
  EXPECT_EQ(workers.trainer(0)
                .Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0))
                .status()
                .code(),
            absl::StatusCode::kAborted);
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(2, {0}, 0, 0));
  EXPECT_TRUE(agreement.ok()) << agreement.status();
}

TEST(JobTrainerTest, SamplesLeftOutAreToldInTheirGeneration) {
  const std::string path = ::testing::TempDir() + "/one_bad_token.bin";
  std::vector<uint16_t> tokens(2000, 7);
  tokens[100] = 300;  // the mlp's tokens are bytes
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof(uint16_t)));
  v1::TrainProgram program = SmallProgram(2);
  v1::TokensSource* source = program.mutable_data()->mutable_tokens();
  source->set_path(path);
  source->set_eval_fraction(0.1);
  source->set_corrupt_records(v1::CORRUPT_RECORDS_SKIP);
  TrainerWorkers workers(2);
  workers.RunGeneration(3, {0, 1}, program, 0, [] {});
  const std::vector<v1::Notice> notices = workers.Notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].kind(), v1::NOTICE_KIND_SAMPLES_SKIPPED);
  EXPECT_EQ(notices[0].generation(), 3);
  EXPECT_GT(workers.trainer(0).progress().figures.skipped_samples(), 0);
}

// A job that is too large for a host must not end the worker.
TEST(JobTrainerTest, DataThatDoesNotFitIntoMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than a limit allows";
#endif
  constexpr off_t kFileBytes = off_t{8} << 30;
  constexpr rlim_t kAddressSpaceBytes = rlim_t{1} << 30;
  const std::string path = ::testing::TempDir() + "/larger_than_memory.txt";
  std::ofstream(path).close();
  ASSERT_EQ(truncate(path.c_str(), kFileBytes), 0);  // a hole: no disk is used
  TrainerWorkers workers(1);
  v1::TrainProgram program = SmallProgram(10);
  program.mutable_data()->mutable_text()->set_path(path);
  program.mutable_data()->mutable_text()->set_max_bytes(kFileBytes);

  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit small = {kAddressSpaceBytes, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const absl::Cleanup restore = [&before] { setrlimit(RLIMIT_AS, &before); };
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0));
  EXPECT_EQ(agreement.status().code(), absl::StatusCode::kResourceExhausted)
      << agreement.status();
}

TEST(JobTrainerTest, AnAbortOfAnEarlierGenerationIsIgnored) {
  TrainerWorkers workers(1);
  const auto outcomes = workers.RunGeneration(2, {0}, SmallProgram(50), 0, [&] {
    workers.trainer(0).Abort(1, "late");
  });
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
}

TEST(JobTrainerTest, AbortsWhileConnecting) {
  TrainerWorkers workers(2);
  // Rank 1 never comes.
  ASSERT_TRUE(
      workers.trainer(0)
          .Prepare(SpecOf(SmallProgram(10)), workers.Assign(1, {0, 1}, 0, 0))
          .ok());
  RunOutcome outcome;
  std::thread run([&] { outcome = workers.trainer(0).Run(); });
  while (workers.trainer(0).progress().phase != TrainPhase::kConnect)
    std::this_thread::yield();
  workers.trainer(0).Abort(1, "halted while connecting");
  run.join();
  EXPECT_EQ(outcome.kind, RunOutcome::Kind::kInterrupted) << outcome.status;
}

// Otherwise the previous rank would be reported, whoever it was.
TEST(JobTrainerTest, NamesTheNeighbourThatDoesNotConnect) {
  TrainerWorkers workers(3);
  // Rank 1 is next of one and previous of the other, and never comes.
  std::vector<std::thread> threads;
  std::vector<RunOutcome> outcomes(3);
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      RankAssignment assignment =
          workers.Assign(1, {0, 1, 2}, static_cast<size_t>(rank), 0);
      assignment.connect_timeout = absl::Milliseconds(500);
      ASSERT_TRUE(workers.trainer(rank)
                      .Prepare(SpecOf(SmallProgram(10)), assignment)
                      .ok());
      outcomes[static_cast<size_t>(rank)] = workers.trainer(rank).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t rank : {0, 2}) {
    EXPECT_EQ(outcomes[rank].kind, RunOutcome::Kind::kPeerFailed);
    EXPECT_EQ(outcomes[rank].peer_rank, 1) << outcomes[rank].status;
  }
}

TEST(JobTrainerTest, UnreadableDataHasAnExitCodeOfItsOwn) {
  TrainerWorkers workers(1);
  v1::TrainProgram program = SmallProgram(10);
  program.mutable_data()->mutable_text()->set_path("/no/such/data");
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0));
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUnreadable)
      << agreement.status();
  EXPECT_THAT(std::string(agreement.status().message()),
              HasSubstr("/no/such/data"));
}

// A job is held as a whole or not at all: the next one begins anew.
TEST(JobTrainerTest, APrepareThatFailsHalfwayLeavesNothingBehind) {
  TrainerWorkers workers(2);
  v1::TrainProgram silent = SmallProgram(10);
  silent.set_seed(6);
  // Too few tokens for text.
  silent.mutable_model()->mutable_gpt()->set_vocabulary(200);
  silent.mutable_sample()->set_prompt("The sea");
  const auto failed =
      workers.trainer(0).Prepare(SpecOf(silent), workers.Assign(1, {0}, 0, 0));
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("train.sample"));

  const auto anew = workers.trainer(0).Prepare(SpecOf(SmallProgram(10)),
                                               workers.Assign(2, {0}, 0, 0));
  const auto fresh = workers.trainer(1).Prepare(SpecOf(SmallProgram(10)),
                                                workers.Assign(2, {0}, 0, 0));
  ASSERT_TRUE(anew.ok() && fresh.ok()) << anew.status() << fresh.status();
  EXPECT_EQ(anew->plan_hash, fresh->plan_hash);
  EXPECT_EQ(anew->data_fingerprint, fresh->data_fingerprint);
}

TEST(JobTrainerTest, ARankThatIsAloneBlamesNobody) {
  TrainerWorkers workers(1);
  FailPoint::Arm("train.commit_send", FailPoint::Action::kError,
                 /*at_pass=*/3);
  const auto outcomes =
      workers.RunGeneration(1, {0}, SmallProgram(10), 0, [] {});
  FailPoint::DisarmAll();
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFailed) << outcomes[0].status;
  EXPECT_EQ(outcomes[0].peer_rank, -1);
}

TEST(JobTrainerTest, AProgramWithoutAModelIsRefused) {
  TrainerWorkers workers(1);
  v1::TrainProgram program = SmallProgram(10);
  program.clear_model();
  const auto agreement =
      workers.trainer(0).Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0));
  EXPECT_EQ(ExitCodeOf(agreement.status()), ExitCode::kUsage)
      << agreement.status();
}

TEST(JobTrainerTest, TrainsTheNextJobAfterARelease) {
  TrainerWorkers workers(2);
  workers.RunGeneration(1, {0, 1}, SmallProgram(10), 0, [] {});
  for (int worker : {0, 1}) workers.trainer(worker).Release();
  EXPECT_EQ(workers.trainer(0).progress().applied_step, 0);
  const auto outcomes =
      workers.RunGeneration(2, {1, 0}, SmallProgram(20), 0, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
  EXPECT_EQ(outcomes[0].applied_step, 20);
}

TEST(JobTrainerTest, DifferentSeedsAreDifferentPlans) {
  TrainerWorkers workers(2);
  v1::TrainProgram other = SmallProgram(10);
  other.set_seed(6);
  const auto first = workers.trainer(0).Prepare(SpecOf(SmallProgram(10)),
                                                workers.Assign(1, {0}, 0, 0));
  const auto second =
      workers.trainer(1).Prepare(SpecOf(other), workers.Assign(1, {0}, 0, 0));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->plan_hash, second->plan_hash);
}

}  // namespace
}  // namespace ringmaster
