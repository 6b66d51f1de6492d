#include "worker/program/program_runner.h"

#include <array>
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
  explicit ProgramRunner(ProgramRunners runners)
      : runners_(std::move(runners)) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override {
    switch (spec.program_case()) {
      case v1::JobSpec::kTrain:
        active_.store(runners_.train.get());
        break;
      case v1::JobSpec::kBench:
        active_.store(runners_.bench.get());
        break;
      case v1::JobSpec::kExternal:
        active_.store(runners_.external.get());
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
    for (JobRunner* runner : All()) runner->Abort(generation, why);
  }
  void RequestStop() override {
    for (JobRunner* runner : All()) runner->RequestStop();
  }
  void RequestDrain() override {
    for (JobRunner* runner : All()) runner->RequestDrain();
  }
  void RequestPause(bool is_let_go, int let_go_count) override {
    for (JobRunner* runner : All())
      runner->RequestPause(is_let_go, let_go_count);
  }
  void RequestLeave() override {
    for (JobRunner* runner : All()) runner->RequestLeave();
  }

  void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) override {
    for (JobRunner* runner : All()) runner->SetNoticeCallback(on_notice);
  }
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    for (JobRunner* runner : All()) runner->SetAdvanceCallback(on_advance);
  }

  void Release() override {
    for (JobRunner* runner : All()) runner->Release();
  }

  TrainProgress progress() const override {
    TrainProgress progress = active().progress();
    // Bytes of the process's whole life, whichever runner works: only this one
    // uses the disk.
    progress.disk_bytes = runners_.train->progress().disk_bytes;
    return progress;
  }
  // The others count nothing.
  std::vector<MetricSample> metrics() const override {
    return runners_.train->metrics();
  }
  const Trace& trace() const override { return active().trace(); }

 private:
  JobRunner& active() const { return *active_.load(); }
  std::array<JobRunner*, 3> All() const {
    return {runners_.train.get(), runners_.bench.get(),
            runners_.external.get()};
  }

  const ProgramRunners runners_;
  std::atomic<JobRunner*> active_ = runners_.train.get();
};

}  // namespace

std::unique_ptr<JobRunner> MakeProgramRunner(ProgramRunners runners) {
  return std::make_unique<ProgramRunner>(std::move(runners));
}

}  // namespace ringmaster
