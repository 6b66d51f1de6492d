#include "worker/program/program_runner.h"

#include <atomic>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

class ProgramRunner final : public JobRunner {
 public:
  ProgramRunner(std::unique_ptr<JobRunner> train,
                std::unique_ptr<JobRunner> bench)
      : train_(std::move(train)), bench_(std::move(bench)) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override {
    switch (spec.program_case()) {
      case v1::JobSpec::kTrain:
        active_.store(train_.get());
        break;
      case v1::JobSpec::kBench:
        active_.store(bench_.get());
        break;
      case v1::JobSpec::PROGRAM_NOT_SET:
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", assignment.rank,
                         ": the job has no program that this worker knows; it "
                         "may be older than the coordinator"));
    }
    return active().Prepare(spec, assignment);
  }

  RunOutcome Run() override { return active().Run(); }

  // An abort may come before the Prepare that tells whose it is; a runner
  // ignores one of a generation that is not its own. So with wishes: they are
  // forgotten at the next Prepare.
  void Abort(int64_t generation, std::string_view why) override {
    train_->Abort(generation, why);
    bench_->Abort(generation, why);
  }
  void RequestStop() override {
    train_->RequestStop();
    bench_->RequestStop();
  }
  void RequestDrain() override {
    train_->RequestDrain();
    bench_->RequestDrain();
  }
  void RequestLeave() override {
    train_->RequestLeave();
    bench_->RequestLeave();
  }

  void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) override {
    train_->SetNoticeCallback(on_notice);
    bench_->SetNoticeCallback(std::move(on_notice));
  }
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    train_->SetAdvanceCallback(on_advance);
    bench_->SetAdvanceCallback(std::move(on_advance));
  }

  void Release() override {
    train_->Release();
    bench_->Release();
  }

  TrainProgress progress() const override {
    TrainProgress progress = active().progress();
    // Bytes of the process's whole life, whichever runner works: only this one
    // uses the disk.
    progress.disk_bytes = train_->progress().disk_bytes;
    return progress;
  }
  // A benchmark counts nothing.
  std::vector<MetricSample> metrics() const override {
    return train_->metrics();
  }
  const Trace& trace() const override { return active().trace(); }

 private:
  JobRunner& active() const { return *active_.load(); }

  const std::unique_ptr<JobRunner> train_;
  const std::unique_ptr<JobRunner> bench_;
  std::atomic<JobRunner*> active_ = train_.get();
};

}  // namespace

std::unique_ptr<JobRunner> MakeProgramRunner(std::unique_ptr<JobRunner> train,
                                             std::unique_ptr<JobRunner> bench) {
  return std::make_unique<ProgramRunner>(std::move(train), std::move(bench));
}

}  // namespace ringmaster
