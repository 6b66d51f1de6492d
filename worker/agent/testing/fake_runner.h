// FakeRunner: a JobRunner that trains nothing: a test says how its calls end.
//
// Prepare succeeds at once, unless the test holds it or sets an error. Run goes
// on until the test ends it, or Abort, RequestStop or RequestDrain does.
// Thread-safe.
#ifndef RINGMASTER_WORKER_AGENT_TESTING_FAKE_RUNNER_H_
#define RINGMASTER_WORKER_AGENT_TESTING_FAKE_RUNNER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

class FakeRunner final : public JobRunner {
 public:
  // ---- For the test.

  // Sets what the next Prepare returns.
  void set_prepare_status(absl::Status status) {
    MutexLock lock(mutex_);
    prepare_status_ = std::move(status);
  }
  // Prepare and Run do not react to Abort.
  void set_is_stuck(bool is_stuck) {
    MutexLock lock(mutex_);
    is_stuck_ = is_stuck;
    changed_.NotifyAll();
  }
  // Sets the steps that training is at.
  void set_steps(int64_t applied, int64_t complete) {
    MutexLock lock(mutex_);
    progress_.applied_step = applied;
    progress_.complete_step = complete;
    progress_.figures.set_step(applied);
  }
  // Ends the Run under way, at the steps set.
  void EndRun(RunOutcome::Kind kind, absl::Status status = absl::OkStatus(),
              int peer_rank = -1) {
    MutexLock lock(mutex_);
    outcome_ = RunOutcome{kind, std::move(status), peer_rank, 0, 0, 4711};
    changed_.NotifyAll();
  }
  // Waits until `call` ("prepare 7", "run 7", "abort 7", "stop", "drain",
  // "release") was made; false after 10 s.
  [[nodiscard]] bool AwaitCall(const std::string& call) {
    const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(10);
    MutexLock lock(mutex_);
    for (;;) {
      for (const std::string& made : calls_) {
        if (made == call) return true;
      }
      if (!changed_.WaitUntil(mutex_, Clock::Real(), deadline)) return false;
    }
  }
  [[nodiscard]] std::vector<std::string> calls() const {
    MutexLock lock(mutex_);
    return calls_;
  }
  [[nodiscard]] RankAssignment assignment() const {
    MutexLock lock(mutex_);
    return assignment_;
  }
  Trace& mutable_trace() { return trace_; }
  // Sends `notice`, as a training thread would.
  void Tell(const v1::Notice& notice) {
    std::function<void(const v1::Notice&)> on_notice;
    {
      MutexLock lock(mutex_);
      on_notice = on_notice_;
    }
    if (on_notice) on_notice(notice);
  }

  // Enters a phase, as a training thread would.
  void Enter(TrainPhase phase) {
    std::function<void(int64_t)> on_advance;
    int64_t generation = 0;
    {
      MutexLock lock(mutex_);
      progress_.phase = phase;
      on_advance = on_advance_;
      generation = progress_.generation;
    }
    if (on_advance) on_advance(generation);
  }

  // ---- JobRunner.

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& /*spec*/, const RankAssignment& assignment) override {
    MutexLock lock(mutex_);
    Note("prepare " + std::to_string(assignment.generation));
    assignment_ = assignment;
    outcome_.reset();
    progress_.generation = assignment.generation;
    progress_.phase = TrainPhase::kPrepare;
    if (!prepare_status_.ok()) {
      return std::exchange(prepare_status_, absl::OkStatus());
    }
    return PlanAgreement{11, 22, "parameters=33"};
  }

  RunOutcome Run() override {
    MutexLock lock(mutex_);
    Note("run " + std::to_string(assignment_.generation));
    progress_.phase = TrainPhase::kStep;
    while (!outcome_ || is_stuck_) changed_.Wait(mutex_);
    RunOutcome outcome = *std::exchange(outcome_, std::nullopt);
    progress_.phase = TrainPhase::kHalted;
    outcome.applied_step = progress_.applied_step;
    outcome.complete_step = progress_.complete_step;
    return outcome;
  }

  void Abort(int64_t generation, std::string_view /*why*/) override {
    MutexLock lock(mutex_);
    Note("abort " + std::to_string(generation));
    if (generation >= assignment_.generation && !outcome_) {
      outcome_ = RunOutcome{RunOutcome::Kind::kInterrupted,
                            absl::CancelledError("aborted")};
    }
  }
  void RequestStop() override { EndByWish("stop", RunOutcome::Kind::kStopped); }
  void RequestDrain() override {
    EndByWish("drain", RunOutcome::Kind::kDrained);
  }

  void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) override {
    MutexLock lock(mutex_);
    on_notice_ = std::move(on_notice);
  }

  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    MutexLock lock(mutex_);
    on_advance_ = std::move(on_advance);
  }

  void Release() override {
    MutexLock lock(mutex_);
    Note("release");
    progress_ = TrainProgress{};
  }

  TrainProgress progress() const override {
    MutexLock lock(mutex_);
    return progress_;
  }
  const Trace& trace() const override { return trace_; }

 private:
  void Note(std::string call) REQUIRES(mutex_) {
    calls_.push_back(std::move(call));
    changed_.NotifyAll();
  }
  void EndByWish(const char* wish, RunOutcome::Kind kind) {
    MutexLock lock(mutex_);
    Note(wish);
    outcome_ = RunOutcome{kind, absl::OkStatus(), -1, 0, 0, 4711};
  }

  Trace trace_{16};
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> calls_ GUARDED_BY(mutex_);
  RankAssignment assignment_ GUARDED_BY(mutex_);
  TrainProgress progress_ GUARDED_BY(mutex_);
  absl::Status prepare_status_ GUARDED_BY(mutex_);
  std::optional<RunOutcome> outcome_ GUARDED_BY(mutex_);
  bool is_stuck_ GUARDED_BY(mutex_) = false;
  std::function<void(const v1::Notice&)> on_notice_ GUARDED_BY(mutex_);
  std::function<void(int64_t)> on_advance_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_TESTING_FAKE_RUNNER_H_
