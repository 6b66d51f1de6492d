// Jobs that write checkpoints, and jobs that start from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/testing/log_capture.h"
#include "common/status/exit_code.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobCheckpointTest : public ::testing::Test {
 protected:
  JobCheckpointTest()
      : directory_(
            fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
  }

  v1::TrainProgram Program(int64_t steps, int64_t every_steps = 10) const {
    v1::TrainProgram program = SmallProgram(steps);
    v1::CheckpointSpec* checkpoint = program.mutable_checkpoint();
    checkpoint->set_directory(directory_.string());
    checkpoint->set_every_steps(every_steps);
    checkpoint->set_keep(2);
    checkpoint->set_resume(true);
    return program;
  }

  // Trains with new processes; all ranks finish with equal parameters, whose
  // hash is returned.
  static uint64_t Train(TrainerWorkers& workers, int count,
                        const v1::TrainProgram& program) {
    std::vector<int> members;
    for (int i = 0; i < count; ++i) members.push_back(i);
    const auto outcomes = workers.RunGeneration(1, members, program, 0, [] {});
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
      EXPECT_EQ(outcome.applied_step, program.steps());
      EXPECT_EQ(outcome.parameters_hash, outcomes[0].parameters_hash);
    }
    return outcomes[0].parameters_hash;
  }
  static uint64_t Train(int count, const v1::TrainProgram& program) {
    TrainerWorkers workers(count);
    return Train(workers, count, program);
  }

  std::vector<std::string> Checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("step-", 0) == 0) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Flips a byte in the middle of a file of the newest checkpoint.
  void DamageNewest(const char* name = "model.safetensors") {
    const fs::path file = directory_ / Checkpoints().back() / name;
    std::fstream stream(file, std::ios::in | std::ios::out);
    const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
    stream.seekg(middle);
    const char byte = static_cast<char>(stream.get());
    stream.seekp(middle);
    stream.put(static_cast<char>(byte ^ 4));
  }

  static std::vector<std::string> MessagesOf(const TrainerWorkers& workers,
                                             v1::NoticeKind kind) {
    std::vector<std::string> messages;
    for (const v1::Notice& notice : workers.Notices()) {
      if (notice.kind() == kind) messages.push_back(notice.message());
    }
    return messages;
  }

  const fs::path directory_;
};

TEST_F(JobCheckpointTest, IsWrittenOnceAHostAndTheLastTwoAreKept) {
  for (const int64_t steps : {10, 20, 30}) {
    TrainerWorkers workers(3);
    Train(workers, 3, Program(steps));
    EXPECT_EQ(MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_WRITTEN).size(),
              1u);
    EXPECT_TRUE(MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_FAILED).empty());
    EXPECT_EQ(workers.trainer(0).progress().figures.checkpoint_step(), steps);
  }
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000020", "step-000000030"));
  EXPECT_TRUE(fs::exists(directory_ / "metrics.jsonl"));
}

TEST_F(JobCheckpointTest, AGenerationWithoutAStepWritesOne) {
  TrainerWorkers workers(2);
  const v1::TrainProgram program = Program(kEndless, kEndless);
  const auto paused = workers.RunGeneration(1, {0, 1}, program, 0, [&] {
    workers.AwaitStep(0, 5);
    workers.trainer(0).RequestDrain();
  });
  const int64_t step = paused[0].applied_step;
  EXPECT_THAT(Checkpoints(), ElementsAre());
  const auto saved = workers.RunGeneration(2, {0, 1}, program, step, [] {},
                                           {.makes_no_step = true});
  for (const RunOutcome& outcome : saved) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
    EXPECT_EQ(outcome.applied_step, step);
  }
  EXPECT_THAT(Checkpoints(), ElementsAre(absl::StrFormat("step-%09d", step)));
}

TEST_F(JobCheckpointTest, RanksThatAllLeaveWriteOne) {
  TrainerWorkers workers(2);
  const v1::TrainProgram program = Program(kEndless, kEndless);
  const auto left = workers.RunGeneration(1, {0, 1}, program, 0, [&] {
    workers.AwaitStep(0, 5);
    workers.trainer(0).RequestLeave();
    workers.trainer(1).RequestLeave();
  });
  for (const RunOutcome& outcome : left) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
  }
  EXPECT_THAT(Checkpoints(),
              ElementsAre(absl::StrFormat("step-%09d", left[0].applied_step)));
}

// The next step is bit for bit that of a run that did not stop.
TEST_F(JobCheckpointTest, TheSameNumberOfRanksGoesOnAsIfItHadNotStopped) {
  const uint64_t whole = Train(2, SmallProgram(30));
  Train(2, Program(20));
  TrainerWorkers resumed(2);
  EXPECT_EQ(Train(resumed, 2, Program(30)), whole);
  EXPECT_THAT(MessagesOf(resumed, v1::NOTICE_KIND_CHECKPOINT_LOADED),
              ElementsAre(AllOf(HasSubstr("step-000000020"),
                                HasSubstr("its settings were others: steps 20, "
                                          "now 30"))));
  for (const v1::Notice& notice : resumed.Notices()) {
    EXPECT_EQ(notice.checkpoint_job_id(),
              notice.checkpoint().empty() ? "" : "job-1");
  }
}

TEST_F(JobCheckpointTest, AnyNumberOfRanksGoesOn) {
  Train(2, Program(20));
  for (const int count : {1, 3}) {
    TrainerWorkers resumed(count);
    v1::TrainProgram program = Program(25);
    program.mutable_checkpoint()->set_every_steps(0);
    Train(resumed, count, program);
    EXPECT_EQ(resumed.trainer(0).progress().applied_step, 25);
    fs::remove_all(directory_ / "step-000000025");
  }
}

// One rank reports it, although each of them has seen it.
TEST_F(JobCheckpointTest, ADamagedOneIsPassedOver) {
  const uint64_t whole = Train(2, SmallProgram(30));
  Train(2, Program(10));
  Train(2, Program(20));
  DamageNewest();
  TrainerWorkers resumed(2);
  EXPECT_EQ(Train(resumed, 2, Program(30)), whole);
  EXPECT_THAT(MessagesOf(resumed, v1::NOTICE_KIND_CHECKPOINT_LOADED),
              ElementsAre(::testing::AllOf(
                  HasSubstr("starts from"), HasSubstr("step-000000010"),
                  HasSubstr("passed over"), HasSubstr("step-000000020"))));
}

// By this, the coordinator distinguishes a rank that works on its disk from a
// stuck one.
TEST_F(JobCheckpointTest, ProgressCountsWhatIsWrittenAndRead) {
  TrainerWorkers workers(2);
  Train(workers, 2, Program(10));
  int64_t written = 0;
  for (const auto& file :
       fs::directory_iterator(directory_ / "step-000000010")) {
    written += static_cast<int64_t>(file.file_size());
  }
  ASSERT_GT(written, 0);
  EXPECT_EQ(workers.trainer(0).progress().disk_bytes, written);
  EXPECT_EQ(workers.trainer(1).progress().disk_bytes, 0);

  // Each file of tensors is read twice: to verify it, and to load it.
  TrainerWorkers resumed(2);
  Train(resumed, 2, Program(10));
  EXPECT_GT(resumed.trainer(0).progress().disk_bytes, written);
  EXPECT_EQ(resumed.trainer(1).progress().disk_bytes, 0);
}

TEST_F(JobCheckpointTest, AFinishedJobIsNotWrittenAgain) {
  Train(1, Program(10));
  TrainerWorkers again(1);
  Train(again, 1, Program(10));
  EXPECT_EQ(MessagesOf(again, v1::NOTICE_KIND_CHECKPOINT_LOADED).size(), 1u);
  EXPECT_TRUE(MessagesOf(again, v1::NOTICE_KIND_CHECKPOINT_WRITTEN).empty());
}

TEST_F(JobCheckpointTest, FiguresTellHowLongTheCommitTook) {
  Train(2, Program(3));
  std::ifstream file(directory_ / "metrics.jsonl");
  std::string line;
  int steps = 0;
  while (std::getline(file, line)) {
    if (line.find(R"("kind":"step")") == std::string::npos) continue;
    ++steps;
    EXPECT_EQ(line.find(R"("commit_seconds":0,)"), std::string::npos) << line;
  }
  EXPECT_EQ(steps, 3);
}

// Only a new generation: a full disk is not asked at each step.
TEST_F(JobCheckpointTest, FiguresThatCouldNotBeWrittenAreTriedAgain) {
  const fs::path path = directory_ / "metrics.jsonl";
  fs::create_directories(directory_);
  fs::create_symlink("/dev/full", path);
  TrainerWorkers workers(1);
  FailPoint::Arm("train.step", FailPoint::Action::kError, /*at_pass=*/4);
  const auto cut = workers.RunGeneration(1, {0}, Program(6, 0), 0, [] {});
  FailPoint::DisarmAll();
  ASSERT_EQ(cut[0].applied_step, 3);
  EXPECT_THAT(MessagesOf(workers, v1::NOTICE_KIND_FIGURES_FAILED),
              ElementsAre(HasSubstr(path.string())));
  fs::remove(path);
  const auto rest = workers.RunGeneration(2, {0}, Program(6, 0), 3, [] {});
  EXPECT_EQ(rest[0].kind, RunOutcome::Kind::kFinished) << rest[0].status;
  EXPECT_EQ(MessagesOf(workers, v1::NOTICE_KIND_FIGURES_FAILED).size(), 1u);
  std::vector<std::string> starts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.find(R"("kind":"step")") == std::string::npos) continue;
    starts.push_back(line.substr(0, line.find(',')));
  }
  // Those that could not be written are there too.
  EXPECT_THAT(starts,
              ElementsAre(R"({"step":1)", R"({"step":2)", R"({"step":3)",
                          R"({"step":4)", R"({"step":5)", R"({"step":6)"));
}

// Its parameters are good and were read before the damage was found.
TEST_F(JobCheckpointTest, NothingOfADamagedOneStays) {
  const uint64_t whole = Train(2, SmallProgram(15));
  Train(2, Program(10));
  DamageNewest("optimizer.safetensors");
  TrainerWorkers resumed(2);
  EXPECT_EQ(Train(resumed, 2, Program(15)), whole);
  EXPECT_THAT(MessagesOf(resumed, v1::NOTICE_KIND_CHECKPOINT_LOADED),
              ElementsAre(HasSubstr("starts from the beginning")));
}

// All hold the step complete, and the next generation begins with it applied.
TEST_F(JobCheckpointTest, AFaultInACommitDoesNotCostTheCheckpointThatWasDue) {
  TrainerWorkers workers(2);
  FailPoint::Arm("train.commit_send", FailPoint::Action::kError,
                 /*at_pass=*/2 * 10 - 1);
  const auto cut = workers.RunGeneration(1, {0, 1}, Program(15), 0, [] {});
  FailPoint::DisarmAll();
  for (const RunOutcome& outcome : cut) {
    ASSERT_EQ(outcome.kind, RunOutcome::Kind::kPeerFailed) << outcome.status;
    ASSERT_EQ(outcome.complete_step, 10);
  }
  const auto rest = workers.RunGeneration(2, {0, 1}, Program(15), 10, [] {});
  EXPECT_EQ(rest[0].kind, RunOutcome::Kind::kFinished) << rest[0].status;
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010", "step-000000015"));
}

// The writer may be lost after the last step, with what it had begun.
TEST_F(JobCheckpointTest, AnotherWriterWritesTheLastStepToo) {
  TrainerWorkers workers(2);
  workers.RunGeneration(1, {0, 1}, Program(10), 0, [] {});
  fs::remove_all(directory_ / "step-000000010");
  const auto outcomes = workers.RunGeneration(2, {1}, Program(10), 10, [] {});
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010"));
}

TEST_F(JobCheckpointTest, OneOfAnotherModelIsRefusedByAllRanksAlike) {
  Train(1, Program(10));
  TrainerWorkers workers(2);
  v1::TrainProgram wider = Program(20);
  wider.mutable_model()->mutable_mlp()->set_hidden_dim(33);
  const auto outcomes = workers.RunGeneration(1, {0, 1}, wider, 0, [] {});
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFailed);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(outcome.status.message()),
                ::testing::AllOf(HasSubstr("output.weight"),
                                 HasSubstr("[256,32]"), HasSubstr("[256,33]")));
  }
}

TEST_F(JobCheckpointTest, WithoutResumeTrainingStartsFromTheBeginning) {
  const uint64_t whole = Train(1, SmallProgram(15));
  Train(1, Program(10));
  v1::TrainProgram again = Program(15);
  again.mutable_checkpoint()->set_resume(false);
  EXPECT_EQ(Train(1, again), whole);
}

// Another job writes checkpoints where this one takes its model from.
TEST_F(JobCheckpointTest, ALinkThatMovesWhileRanksPrepareStartsAllAlike) {
  Train(1, Program(20));
  v1::TrainProgram program = SmallProgram(5);
  const fs::path latest = directory_ / "latest";
  const auto point_to = [&](const char* name) {
    fs::remove(latest);
    fs::create_directory_symlink(name, latest);
  };
  point_to("step-000000010");
  program.set_initial_parameters(latest.string());
  const uint64_t expected = Train(2, program);

  const LogCapture capture;
  TrainerWorkers workers(2);
  for (const int worker : {0, 1}) {
    const auto agreement = workers.trainer(worker).Prepare(
        SpecOf(program),
        workers.Assign(1, {0, 1}, static_cast<size_t>(worker), 0));
    ASSERT_TRUE(agreement.ok()) << agreement.status();
    point_to("step-000000020");
  }
  std::vector<RunOutcome> outcomes(2);
  std::thread other([&] { outcomes[1] = workers.trainer(1).Run(); });
  outcomes[0] = workers.trainer(0).Run();
  other.join();
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.parameters_hash, expected);
  }
  EXPECT_TRUE(capture.Contains(absl::StrCat(
      "train.initial_parameters_differed path=", latest.string(), " ranks=1")));
}

TEST_F(JobCheckpointTest, AFailedWriteIsToldAndTrainingGoesOn) {
  FailPoint::Arm("checkpoint.write", FailPoint::Action::kError);
  FailPoint::Arm("train.step", FailPoint::Action::kHang, /*at_pass=*/15);
  TrainerWorkers workers(1);
  const auto outcomes = workers.RunGeneration(1, {0}, Program(20), 0, [] {
    while (FailPoint::PassCount("checkpoint.write") == 0 ||
           FailPoint::HangingCount("train.step") == 0) {
      std::this_thread::yield();
    }
    FailPoint::DisarmAll();
  });
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000020"));
  EXPECT_THAT(MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_FAILED),
              ElementsAre(HasSubstr(directory_.string())));
}

TEST_F(JobCheckpointTest, AJobWhoseLastCheckpointFailsHasFailed) {
  Train(1, Program(10));
  FailPoint::Arm("checkpoint.write", FailPoint::Action::kError);
  TrainerWorkers workers(2);
  const auto outcomes = workers.RunGeneration(1, {0, 1}, Program(20), 0, [] {});
  FailPoint::DisarmAll();
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFailed);
  EXPECT_EQ(ExitCodeOf(outcomes[0].status), ExitCode::kUnreadable);
  EXPECT_THAT(
      std::string(outcomes[0].status.message()),
      HasSubstr(absl::StrCat("the last checkpoint, of step 20, could not be "
                             "written to ",
                             directory_.string(), ": ")));
  // The other one had none to write.
  EXPECT_EQ(outcomes[1].kind, RunOutcome::Kind::kFinished);
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010"));
  EXPECT_EQ(MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_FAILED).size(), 1u);
  // With the disk mended, the next generation writes what this one could not.
  const auto again = workers.RunGeneration(2, {0, 1}, Program(20), 20, [] {});
  EXPECT_EQ(again[0].kind, RunOutcome::Kind::kFinished) << again[0].status;
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010", "step-000000020"));
}

TEST_F(JobCheckpointTest, AFailedWriteEndsAJobThatWantsIt) {
  v1::TrainProgram program = Program(20);
  program.mutable_checkpoint()->set_on_error(v1::WRITE_ERROR_POLICY_FAIL);
  FailPoint::Arm("checkpoint.write", FailPoint::Action::kError);
  TrainerWorkers workers(1);
  const auto outcomes = workers.RunGeneration(1, {0}, program, 0, [] {});
  FailPoint::DisarmAll();
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFailed);
  EXPECT_EQ(ExitCodeOf(outcomes[0].status), ExitCode::kUnreadable);
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              HasSubstr("train.checkpoint.on_error is fail"));
  EXPECT_TRUE(IsOfJob(outcomes[0].status));
  EXPECT_FALSE(MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_FAILED).empty());
}

TEST_F(JobCheckpointTest, ADirectoryThatCannotBeIsRefusedBeforeTheDataAreRead) {
  std::ofstream(directory_) << "a file";
  TrainerWorkers workers(1);
  v1::TrainProgram program = Program(5);
  program.mutable_data()->mutable_text()->set_path("/there/is/none");
  const absl::Status status =
      workers.trainer(0)
          .Prepare(SpecOf(program), workers.Assign(1, {0}, 0, 0))
          .status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreadable);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("train.checkpoint.directory: cannot create ",
                         directory_.string(), ": Not a directory"));
  fs::remove(directory_);
}

TEST_F(JobCheckpointTest, ExitCodesTellWhoseTheDirectoryIs) {
  const auto code = [&] {
    TrainerWorkers workers(1);
    const absl::Status status =
        workers.trainer(0)
            .Prepare(SpecOf(Program(5)), workers.Assign(1, {0}, 0, 0))
            .status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("train.checkpoint.directory: "));
    return ExitCodeOf(status);
  };
  fs::create_directories(directory_ / ".owner");
  EXPECT_EQ(code(), ExitCode::kUnreadable);
  fs::remove(directory_ / ".owner");
  std::ofstream(directory_ / ".owner") << "another-3\n";
  EXPECT_EQ(code(), ExitCode::kUsage);
  fs::remove(directory_ / ".owner");
}

// Somebody asked for the stop, and is likely to go on from it.
TEST_F(JobCheckpointTest, AStopIsWritten) {
  TrainerWorkers workers(2);
  const auto outcomes =
      workers.RunGeneration(1, {0, 1}, Program(kEndless, 0), 0, [&] {
        workers.AwaitStep(0, 5);
        workers.trainer(1).RequestStop();
      });
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kStopped);
  EXPECT_THAT(
      Checkpoints(),
      ElementsAre(absl::StrCat(
          "step-", absl::Dec(outcomes[0].applied_step, absl::kZeroPad9))));
}

// A fault after the checkpoint was read: what ranks answer to the halt lets all
// start from it, or all from the beginning, which finds it again.
TEST_F(JobCheckpointTest, AFaultWhileStartingLosesNothing) {
  const uint64_t whole = Train(2, SmallProgram(30));
  Train(2, Program(20));
  for (const char* fail_point :
       {"train.checkpoint_loaded", "train.checkpoint_agreed"}) {
    TrainerWorkers workers(2);
    FailPoint::Arm(fail_point, FailPoint::Action::kError, /*at_pass=*/2);
    const auto cut = workers.RunGeneration(1, {0, 1}, Program(30), 0, [] {});
    FailPoint::DisarmAll();
    int64_t applied = 0;
    for (const RunOutcome& outcome : cut) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kPeerFailed) << outcome.status;
      EXPECT_EQ(outcome.complete_step, 20);
      applied = std::max(applied, outcome.applied_step);
    }
    EXPECT_LE(applied, 20);
    const auto resumed =
        workers.RunGeneration(2, {0, 1}, Program(30), 20, [] {});
    ASSERT_EQ(resumed[0].kind, RunOutcome::Kind::kFinished)
        << resumed[0].status;
    EXPECT_EQ(resumed[0].parameters_hash, whole);
    fs::remove_all(directory_ / "step-000000030");
  }
}

class EarlyStopTest : public JobCheckpointTest {
 protected:
  // Of the evaluations after steps 5, 10, ... only the first is progress enough.
  v1::TrainProgram Stopping(int64_t patience) const {
    v1::TrainProgram program = Program(100);
    program.set_evaluate_every(5);
    program.mutable_early_stop()->set_patience(patience);
    program.mutable_early_stop()->set_min_delta(100);
    return program;
  }
  static void ExpectEnd(const std::vector<RunOutcome>& outcomes, int64_t step) {
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
      EXPECT_EQ(outcome.applied_step, step);
      EXPECT_EQ(outcome.parameters_hash, outcomes[0].parameters_hash);
    }
  }
  EvaluationHistory EvaluationsOf(const std::string& name) const {
    return *ReadCheckpointManifest((directory_ / name).string())->evaluations;
  }
};

TEST_F(EarlyStopTest, AllRanksEndAfterTheSameEvaluationWithACheckpoint) {
  TrainerWorkers workers(3);
  ExpectEnd(workers.RunGeneration(1, {0, 1, 2}, Stopping(2), 0, [] {}), 15);
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010", "step-000000015"));
  const EvaluationHistory before = EvaluationsOf("step-000000010");
  EXPECT_EQ(before.last_step, 10) << "it comes before the snapshot";
  EXPECT_EQ(before.without_progress, 1);
  EXPECT_EQ(EvaluationsOf("step-000000015").without_progress, 2);
  EXPECT_EQ(workers.trainer(0).progress().figures.evaluation_step(), 15);
}

TEST_F(EarlyStopTest, OneThatHadEndedEndsAtOnceAndGoesOnWithMorePatience) {
  TrainerWorkers first(2);
  ExpectEnd(first.RunGeneration(1, {0, 1}, Stopping(2), 0, [] {}), 15);
  TrainerWorkers again(1);
  ExpectEnd(again.RunGeneration(1, {0}, Stopping(2), 0, [] {}), 15);
  EXPECT_EQ(again.trainer(0).progress().figures.evaluation_step(), 15)
      << "it has nothing else to show";
  TrainerWorkers patient(2);
  ExpectEnd(patient.RunGeneration(1, {0, 1}, Stopping(4), 0, [] {}), 25);
}

// The evaluations that were made count on, whoever is left, and those of a rank that
// takes over are the others'.
TEST_F(EarlyStopTest, AFaultAfterAnEvaluationLosesNoCount) {
  for (const int64_t pass : {2 * 10 + 1, 2 * 11 + 1, 2 * 15 - 1}) {
    SCOPED_TRACE(pass);
    fs::remove_all(directory_);
    TrainerWorkers workers(2);
    FailPoint::Arm("train.step", FailPoint::Action::kError, pass);
    const auto cut = workers.RunGeneration(1, {0, 1}, Stopping(2), 0, [] {});
    FailPoint::DisarmAll();
    ASSERT_NE(cut[1].kind, RunOutcome::Kind::kFinished);
    const int64_t step = cut[1].complete_step;
    ASSERT_GE(step, 10);
    ASSERT_LT(step, 15);
    workers.Replace(0);
    ExpectEnd(workers.RunGeneration(2, {0, 1}, Stopping(2), step, [] {},
                                    {.source_rank = 1, .newcomers = {0}}),
              15);
  }
}

// In its midst: it is made again, and counts once.
TEST_F(EarlyStopTest, AFaultInAnEvaluationHasItMadeAgain) {
  for (const char* const point : {"train.evaluate", "train.evaluated"}) {
    SCOPED_TRACE(point);
    fs::remove_all(directory_);
    TrainerWorkers workers(2);
    FailPoint::Arm(point, FailPoint::Action::kError, /*at_pass=*/2 * 3);
    const auto cut = workers.RunGeneration(1, {0, 1}, Stopping(2), 0, [] {});
    FailPoint::DisarmAll();
    ExpectEnd(workers.RunGeneration(2, {0, 1}, Stopping(2), 15, [] {}), 15);
    EXPECT_EQ(EvaluationsOf("step-000000015").without_progress, 2);
  }
}

// All are lost: the checkpoint of step 10 has what was known after it.
TEST_F(EarlyStopTest, TheCountComesBackFromACheckpoint) {
  v1::TrainProgram program = Stopping(100);
  program.set_steps(13);
  Train(2, program);
  fs::remove_all(directory_ / "step-000000013");
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000010"));
  TrainerWorkers others(3);
  // A fault while they start does not lose it either.
  FailPoint::Arm("train.checkpoint_agreed", FailPoint::Action::kError,
                 /*at_pass=*/3);
  const auto cut = others.RunGeneration(1, {0, 1, 2}, Stopping(2), 0, [] {});
  FailPoint::DisarmAll();
  EXPECT_EQ(cut[0].complete_step, 10);
  ExpectEnd(others.RunGeneration(2, {0, 1, 2}, Stopping(2), 10, [] {}), 15);
}

// Its checkpoint came before the evaluation that was due.
TEST_F(EarlyStopTest, AStopInTheStepOfAnEvaluationLosesNoCount) {
  v1::TrainProgram program = Stopping(2);
  program.set_evaluate_every(1);
  program.mutable_early_stop()->set_patience(1'000'000);
  program.set_steps(kEndless);
  TrainerWorkers workers(1);
  const auto stopped = workers.RunGeneration(1, {0}, program, 0, [&] {
    workers.AwaitStep(0, 5);
    workers.trainer(0).RequestStop();
  });
  const int64_t step = stopped[0].applied_step;
  EXPECT_EQ(EvaluationsOf(absl::StrFormat("step-%09d", step)).last_step,
            step - 1);
  // The first evaluation was progress, so `step` is the last that is awaited.
  program.mutable_early_stop()->set_patience(step - 1);
  TrainerWorkers others(1);
  ExpectEnd(others.RunGeneration(1, {0}, program, 0, [] {}), step);
}

class KeepBestTest : public EarlyStopTest {
 protected:
  v1::TrainProgram Keeping(int64_t steps, double learning_rate) const {
    v1::TrainProgram program = Program(steps);
    program.mutable_optimizer()->mutable_adamw()->set_learning_rate(
        learning_rate);
    program.set_evaluate_every(5);
    program.mutable_checkpoint()->set_keep(1);
    program.mutable_checkpoint()->set_keep_best(true);
    return program;
  }
  int64_t StepOfBestHere() const {
    return StepOfBest(directory_.string()).value_or(0);
  }
};

TEST_F(KeepBestTest, StaysBesideThoseThatAreKeptAndIsComparedOn) {
  Train(2, Keeping(5, 0.003));
  EXPECT_EQ(StepOfBestHere(), 5);
  // At this rate the loss rises.
  Train(3, Keeping(30, 100));
  EXPECT_EQ(StepOfBestHere(), 5);
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000005", "step-000000030"));
  const EvaluationHistory last = EvaluationsOf("step-000000030");
  EXPECT_EQ(last.last_step, 30);
  EXPECT_EQ(last.best_step, 5);
  EXPECT_EQ(last.best_loss, EvaluationsOf("best").best_loss);
}

TEST_F(KeepBestTest, ABetterOneTakesItsPlaceThoughNoneIsDue) {
  v1::TrainProgram program = Keeping(5, 1e-4);
  program.mutable_checkpoint()->set_every_steps(0);
  Train(2, program);
  // The first of its evaluations finds the disk idle.
  program.set_steps(14);
  TrainerWorkers workers(2);
  Train(workers, 2, program);
  EXPECT_EQ(StepOfBestHere(), 14);
  EXPECT_THAT(Checkpoints(), ElementsAre("step-000000014"));
  EXPECT_THAT(
      MessagesOf(workers, v1::NOTICE_KIND_CHECKPOINT_WRITTEN),
      ElementsAre(
          AllOf(HasSubstr("step-000000010"), HasSubstr("the best so far")),
          AllOf(HasSubstr("step-000000014"), HasSubstr("the best so far"))));
}

// Its checkpoint was written before its evaluation was known.
TEST_F(KeepBestTest, OneThatAStopWroteBecomesTheBest) {
  v1::TrainProgram program = Keeping(kEndless, 1e-4);
  program.mutable_checkpoint()->set_every_steps(0);
  program.set_evaluate_every(1);
  TrainerWorkers workers(1);
  const auto stopped = workers.RunGeneration(1, {0}, program, 0, [&] {
    workers.AwaitStep(0, 2);
    workers.trainer(0).RequestStop();
  });
  const int64_t step = stopped[0].applied_step;
  ASSERT_LT(StepOfBestHere(), step);
  program.set_steps(step);
  Train(1, program);
  EXPECT_EQ(StepOfBestHere(), step) << "the loss falls steadily";
  EXPECT_EQ(EvaluationsOf("best").best_step, step);
}

TEST_F(JobCheckpointTest, ASampleIsWrittenAtEachEvaluation) {
  TrainerWorkers workers(2);
  v1::TrainProgram program = Program(20);
  program.set_evaluate_every(10);
  program.mutable_sample()->set_prompt("ab");
  program.mutable_sample()->set_bytes(12);
  Train(workers, 2, program);
  std::vector<int64_t> steps;
  for (const v1::Notice& notice : workers.Notices()) {
    if (notice.kind() != v1::NOTICE_KIND_SAMPLE) continue;
    steps.push_back(notice.step());
    EXPECT_EQ(notice.sample().prompt(), "ab");
    EXPECT_GE(notice.sample().text().size(), 12u);
  }
  EXPECT_THAT(steps, ElementsAre(10, 20));
}

}  // namespace
}  // namespace ringmaster
