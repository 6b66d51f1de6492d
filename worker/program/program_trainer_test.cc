#include "worker/program/program_trainer.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

// Notes what is asked of it.
class NotingTrainer final : public Trainer {
 public:
  NotingTrainer(std::string name, int64_t disk_bytes,
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

class ProgramTrainerTest : public ::testing::Test {
 protected:
  ProgramTrainerTest() {
    train_spec_.mutable_train()->set_steps(3);
    bench_spec_.mutable_bench()->set_iterations(3);
  }

  v1::JobSpec train_spec_;
  v1::JobSpec bench_spec_;
  std::vector<std::string> calls_;
  const std::unique_ptr<Trainer> trainer_ =
      MakeProgramTrainer(std::make_unique<NotingTrainer>("train", 10, calls_),
                         std::make_unique<NotingTrainer>("bench", 0, calls_));
};

TEST_F(ProgramTrainerTest, LetsTheProgramsTrainerWork) {
  EXPECT_EQ(trainer_->Prepare(bench_spec_, {})->summary, "bench");
  (void)trainer_->Run();
  EXPECT_EQ(trainer_->progress().collective_sequence, 1);
  EXPECT_EQ(trainer_->progress().disk_bytes, 10);
  EXPECT_EQ(trainer_->Prepare(train_spec_, {})->summary, "train");
  (void)trainer_->Run();
  EXPECT_EQ(trainer_->progress().collective_sequence, 11);
  EXPECT_THAT(calls_, ElementsAre("bench prepare", "bench run", "train prepare",
                                  "train run"));
}

TEST_F(ProgramTrainerTest, TellsAllWhatMayBeMeantForAny) {
  trainer_->Abort(1, "why");
  trainer_->RequestStop();
  trainer_->RequestDrain();
  trainer_->SetNoticeCallback({});
  trainer_->SetAdvanceCallback({});
  trainer_->Release();
  EXPECT_THAT(calls_,
              ElementsAre("train abort", "bench abort", "train stop",
                          "bench stop", "train drain", "bench drain",
                          "train notices", "bench notices", "train advances",
                          "bench advances", "train release", "bench release"));
}

TEST_F(ProgramTrainerTest, RefusesAProgramThatItDoesNotKnow) {
  EXPECT_EQ(trainer_->Prepare(v1::JobSpec(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(calls_, ElementsAre());
}

}  // namespace
}  // namespace ringmaster
