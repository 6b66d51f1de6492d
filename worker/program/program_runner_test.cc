#include "worker/program/program_runner.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

// Notes its calls.
class NotingRunner final : public JobRunner {
 public:
  NotingRunner(std::string name, int64_t disk_bytes,
               std::vector<std::string>& calls)
      : name_(std::move(name)), disk_bytes_(disk_bytes), calls_(calls) {}

  absl::StatusOr<PlanAgreement> Prepare(const v1::JobSpec&,
                                        const RankAssignment&) override {
    Note("prepare");
    return PlanAgreement{.summary = name_};
  }
  RunOutcome Run() override {
    Note("run");
    return RunOutcome();
  }
  void Abort(int64_t, std::string_view) override { Note("abort"); }
  void RequestStop() override { Note("stop"); }
  void RequestDrain() override { Note("drain"); }
  void SetNoticeCallback(std::function<void(const v1::Notice&)>) override {
    Note("notices");
  }
  void SetAdvanceCallback(std::function<void(int64_t)>) override {
    Note("advances");
  }
  void Release() override { Note("release"); }
  TrainProgress progress() const override {
    TrainProgress progress;
    progress.collective_sequence = disk_bytes_ + 1;
    progress.disk_bytes = disk_bytes_;
    return progress;
  }
  const Trace& trace() const override { return trace_; }

 private:
  void Note(const std::string& call) { calls_.push_back(name_ + " " + call); }

  const std::string name_;
  const int64_t disk_bytes_;
  std::vector<std::string>& calls_;
  Trace trace_;
};

class ProgramRunnerTest : public ::testing::Test {
 protected:
  ProgramRunnerTest() {
    train_spec_.mutable_train()->set_steps(3);
    bench_spec_.mutable_bench()->set_iterations(3);
    external_spec_.mutable_external()->add_command("true");
  }

  v1::JobSpec train_spec_;
  v1::JobSpec bench_spec_;
  v1::JobSpec external_spec_;
  std::vector<std::string> calls_;
  const std::unique_ptr<JobRunner> runner_ =
      MakeProgramRunner(
          {.train = std::make_unique<NotingRunner>("train", 10, calls_),
           .bench = std::make_unique<NotingRunner>("bench", 0, calls_),
           .external = std::make_unique<NotingRunner>("external", 0, calls_)});
};

TEST_F(ProgramRunnerTest, LetsTheProgramsRunnerWork) {
  EXPECT_EQ(runner_->Prepare(bench_spec_, {})->summary, "bench");
  (void)runner_->Run();
  EXPECT_EQ(runner_->progress().collective_sequence, 1);
  EXPECT_EQ(runner_->progress().disk_bytes, 10);
  EXPECT_EQ(runner_->Prepare(external_spec_, {})->summary, "external");
  (void)runner_->Run();
  EXPECT_EQ(runner_->Prepare(train_spec_, {})->summary, "train");
  (void)runner_->Run();
  EXPECT_EQ(runner_->progress().collective_sequence, 11);
  EXPECT_THAT(calls_, ElementsAre("bench prepare", "bench run", "external prepare",
                                  "external run", "train prepare",
                                  "train run"));
}

TEST_F(ProgramRunnerTest, TellsAllWhatMayBeMeantForAny) {
  runner_->Abort(1, "why");
  runner_->RequestStop();
  runner_->RequestDrain();
  runner_->SetNoticeCallback({});
  runner_->SetAdvanceCallback({});
  runner_->Release();
  EXPECT_THAT(calls_,
              ElementsAre("train abort", "bench abort", "external abort",
                          "train stop", "bench stop", "external stop",
                          "train drain", "bench drain", "external drain",
                          "train notices", "bench notices", "external notices",
                          "train advances", "bench advances",
                          "external advances", "train release",
                          "bench release", "external release"));
}

TEST_F(ProgramRunnerTest, RefusesAProgramThatItDoesNotKnow) {
  EXPECT_EQ(runner_->Prepare(v1::JobSpec(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(calls_, ElementsAre());
}

}  // namespace
}  // namespace ringmaster
