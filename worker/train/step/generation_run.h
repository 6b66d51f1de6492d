// GenerationRun trains through one generation: step after step until the last,
// an agreed end, or a failure.
//
// One step, top to bottom (generation_run.cc, RunStep): the next batch;
// forward; backward, during which each bucket's reduction (or push, where there
// are parameter servers) starts as soon as its gradients are there; the rest of
// the reductions; the commit exchange; the update. The work after it (a
// snapshot for a checkpoint, an evaluation, a text) is in Run. Where evaluations
// decide, as about an early stop, they come before the snapshot, which has to know
// of them.
//
// Thread-safety: on the training thread; the wishes are set from others.
#ifndef RINGMASTER_WORKER_TRAIN_STEP_GENERATION_RUN_H_
#define RINGMASTER_WORKER_TRAIN_STEP_GENERATION_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/data/prefetcher.h"
#include "worker/member/progress_board.h"
#include "worker/member/train_counters.h"
#include "worker/train/exchange/awaited_ranks.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/output/job_files.h"
#include "worker/train/output/text_sampler.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// The requests for this worker's next commit record.
struct Wishes {
  std::atomic<bool> stop{false};
  std::atomic<bool> drain{false};
  std::atomic<bool> leave{false};  // it is this worker that is to leave
  // This worker takes no part in the next generation.
  std::atomic<bool> let_go{false};
  // So many workers have been told that.
  std::atomic<int> let_go_count{0};
};

// The work of a generation that makes no step.
enum class NoStep {
  kNone,      // it trains
  kHandOver,  // newcomers hold the state by now: that is all
  kSave,      // a checkpoint is written
};

class GenerationRun {
 public:
  // The reason why the loop ended without an error.
  using End = DoneKind;

  // All references must outlive it. `prefetcher` is started at the state's next
  // step.
  struct Parts {
    TrainingState& state;
    Communicator& communicator;
    ParameterSync& sync;
    Prefetcher& prefetcher;
    ProgressBoard& board;
    const Wishes& wishes;
    const CancelToken& cancel;
    Clock& clock;
    Trace& trace;
    TrainCounters& counters;
    JobFiles& files;
    TextSampler* sampler = nullptr;  // null: no text is asked for
    // The peak of this rank's processor at the job's precision; 0: not known.
    double peak_flops = 0;
    NoStep no_step = NoStep::kNone;
    // This rank has taken the state over as the generation began.
    bool is_newcomer = false;
    std::function<void(const v1::Notice&)> on_notice = [](const v1::Notice&) {};
  };
  GenerationRun(absl::Duration wait_timeout, const Parts& parts);

  // Errors as ParameterSync::Commit and Prefetcher::Next, but
  //   INVALID_ARGUMENT    too many updates in a row were skipped
  //   RESOURCE_EXHAUSTED  a batch was not ready in time
  [[nodiscard]] absl::StatusOr<End> Run();

 private:
  [[nodiscard]] absl::Status CheckSkippedSteps(int64_t step) const;
  // The update of `step` was skipped.
  void NoteSkippedStep(int64_t step, const CommittedStep& committed);
  // Takes the snapshot of `step`, if one is due.
  [[nodiscard]] absl::Status SnapshotAfter(int64_t step, bool is_last);
  // Returns true if this rank takes no part in what follows.
  [[nodiscard]] bool IsLeaver() const;
  // All ranks pause: waits until as many know that they are let go as were told so, as
  // far as any rank has heard; not for ever, since one may be out of the coordinator's
  // reach. Errors as Communicator::Run.
  [[nodiscard]] absl::Status AwaitLetGo();
  [[nodiscard]] bool IsEvaluationDue(int64_t step) const;
  // Returns true if no step is left to make: all are done, or the evaluations have not
  // got better for as long as the job's early stop waits. The same on all ranks.
  [[nodiscard]] bool IsDone() const;
  // The generation begins after `step`: makes what was due after it and is not
  // there.
  [[nodiscard]] absl::Status MakeUpFor(int64_t step);
  [[nodiscard]] absl::Status MakeUpForEvaluation(int64_t step);
  // Leaves the others, and waits for the checkpoint of the last step.
  [[nodiscard]] absl::Status Finish(int64_t step, End how);
  // All ranks leave after `step`: tells them whether it is in a checkpoint by now.
  void ShareSavedStep(int64_t step);
  // Members leave, and the generation is for what they hold.
  [[nodiscard]] absl::StatusOr<End> RunWithoutStep();
  [[nodiscard]] absl::StatusOr<CommitSummary> RunStep(int64_t step);
  [[nodiscard]] absl::StatusOr<const Batch*> NextBatch(int64_t step);
  // The micro-batches of a rank's part, one after the other; gradients add up,
  // and their reductions start during the last one. A halt must be answered
  // soon, so it checks for cancellation between two of them.
  [[nodiscard]] absl::Status ForwardBackward(int64_t step, const Batch& batch,
                                             LocalStep& local,
                                             PhaseFigures& phases);
  // The rest of the micro-batches that were only queued.
  [[nodiscard]] absl::Status AwaitDevice(int64_t step, LocalStep& local,
                                         PhaseFigures& phases);
  // The times when a pass began, turned back, and ended.
  struct PassTimes {
    MonotonicTime begin;
    MonotonicTime backward;
    MonotonicTime end;
  };
  void NotePass(int64_t step, const PassTimes& times, PhaseFigures& phases);
  [[nodiscard]] absl::StatusOr<CommittedStep> Commit(int64_t step,
                                                     LocalStep& local);
  void Record(int64_t step, const Batch& batch, const CommittedStep& committed,
              StepFigures& figures);
  [[nodiscard]] absl::Status WriteSample(int64_t step);
  [[nodiscard]] absl::Status EvaluateAfter(int64_t step);
  [[nodiscard]] uint64_t GlobalSampleHash(int64_t step);

  const absl::Duration wait_timeout_;
  Parts parts_;
  std::vector<int64_t> global_ids_;  // scratch
  Batch micro_batch_;                // scratch
  int64_t steps_run_ = 0;            // in this generation
  std::optional<MonotonicTime> leaves_since_;
  std::string non_finite_origin_;  // of the last update that was left out
  AwaitedRanks awaited_;
  absl::Duration all_reduce_time_;  // of the steps so far
  absl::Duration last_snapshot_;    // after the step before
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STEP_GENERATION_RUN_H_
