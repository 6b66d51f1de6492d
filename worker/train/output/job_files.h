// JobFiles writes a job's files: checkpoints, and the figures of every step.
//
// Each host writes its own checkpoints, by its first rank, since another host's
// disk may be gone later; ranks that see one shared directory write it once.
// Figures are written by rank 0.
//
// A file that cannot be written becomes a notice, and training goes on, unless
// the job is to fail over a checkpoint. A job whose last checkpoint could not be
// written has failed in any case: it has not left what it was run for. Figures that
// could not be written are tried again with the next generation. Every rank keeps
// the last steps' figures (StepHistory), from which rank 0 adds what an earlier rank
// 0 had not written when it died.
// Thread-safety: on the training thread.
#ifndef RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_FILES_H_
#define RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/collective/communicator.h"
#include "worker/figures/step_figures_log.h"
#include "worker/member/job_runner.h"
#include "worker/member/progress_board.h"
#include "worker/train/output/step_history.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

class JobFiles {
 public:
  using OnNotice = std::function<void(const v1::Notice&)>;

  // For the job `job_id` with a directory of checkpoints, or none: then nothing is
  // written. All references must outlive it.
  JobFiles(TrainingState& state, std::string job_id, ProgressBoard& board,
           OnNotice on_notice, Clock& clock);
  ~JobFiles();

  // A generation begins, after its steps are settled: agrees with all ranks on
  // who writes. `local_rank` is this rank's index on its host.
  // Rank 0 takes over figures that it lacks. Errors as Communicator::Wait, and
  // failure().
  [[nodiscard]] absl::Status BeginGeneration(int64_t generation, int local_rank,
                                             Communicator& communicator,
                                             absl::Duration wait_timeout);
  // Training starts from the checkpoint of `step`, which is there already.
  void StartsFrom(int64_t step) { snapshot_step_ = step; }
  // Between two generations: `step` was complete when the last one was interrupted,
  // and counts. `gradient_norm` may be NaN: not known.
  void NoteSettled(int64_t step, double gradient_norm, double learning_rate);
  // The first checkpoint that could not be written, with the exit code of a
  // file that cannot be used, if the job is to fail over it.
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  // The reason why this rank's latest checkpoint is not on its disk, with the same exit
  // code; OK if it is, or if this rank had none to write in this generation.
  [[nodiscard]] const absl::Status& latest_failure() const {
    return latest_failure_;
  }
  // Writes the remaining figures; checkpoints continue to be written.
  void EndGeneration();

  void RecordStep(const StepFigures& figures);
  void RecordEvaluation(int64_t step, const EvaluationRecord& record);
  void RecordSample(int64_t step, const std::string& prompt,
                    const std::string& text);
  // The last step after which this process has evaluated; 0: none.
  [[nodiscard]] int64_t evaluated_step() const { return evaluated_step_; }
  // The last steps of which there are records: in the file, on a rank that writes it.
  struct Recorded {
    int64_t evaluation = 0;
    int64_t sample = 0;
  };
  [[nodiscard]] Recorded recorded() const;

  // Returns true if some rank may take a snapshot after `step`; the same on all.
  [[nodiscard]] bool IsSnapshotStep(int64_t step, bool is_last) const;
  // Returns true if SnapshotIfDue or Finish would have this rank take a
  // snapshot, which needs parameters and moments to be there.
  [[nodiscard]] bool IsSnapshotDue(int64_t step, bool is_last) const;

  // After `step` was applied, and evaluated if what is kept depends on that: takes a
  // snapshot if one is due or `is_last`, and
  // reports the outcome of earlier ones. Does not wait for the disk: a last
  // snapshot that finds an earlier one still being written is left to Finish.
  // Returns how long training stood still for it.
  absl::Duration SnapshotIfDue(int64_t step, bool is_last);

  // Training ends with `step`, and no rank waits for another any more: takes
  // its snapshot if there is none, as after a fault that another rank wrote
  // for, and waits until all is written or `cancel` is cancelled.
  void Finish(int64_t step, const CancelToken& cancel);

 private:
  // What ranks tell each other as a generation begins.
  struct Standing {
    int64_t directory = 0;  // its identity; 0: it writes none
    int64_t figures = 0;    // of rank 0: the last step in its file
    // Of its history.
    int64_t last_step = 0;
    int64_t is_whole = 0;
    int64_t steps = 0;
  };
  [[nodiscard]] Standing OwnStanding(int local_rank, int rank);
  [[nodiscard]] static absl::StatusOr<std::vector<Standing>> Exchange(
      const Standing& own, Communicator& communicator, MonotonicTime deadline);
  // All ranks take over the evaluations of the one that knows most of them: newcomers
  // know none.
  [[nodiscard]] absl::Status AgreeOnEvaluations(Communicator& communicator,
                                                MonotonicTime deadline);
  [[nodiscard]] absl::Status TakeOverFigures(
      const std::vector<Standing>& standings, Communicator& communicator,
      MonotonicTime deadline);
  // Returns true if the checkpoint of `step` is to be kept as the best.
  [[nodiscard]] bool IsBest(int64_t step) const;
  void KeepFiguresOpen(int rank);
  void OpenFigures();
  void OpenWriter();
  void TakeSnapshot(int64_t step);
  void AwaitWriter(const CancelToken& cancel);
  void ReportResults();
  void Report(const CheckpointResult& result);
  void Notify(v1::NoticeKind kind, int64_t step, std::string message,
              absl::Duration duration = absl::ZeroDuration());
  void KeepFailure(int64_t step, const std::string& message);
  void CheckFigures(const absl::Status& status);
  const std::string& directory() const {
    return state_.config().program.checkpoint().directory();
  }

  TrainingState& state_;
  const std::string job_id_;
  ProgressBoard& board_;
  const OnNotice on_notice_;
  Clock& clock_;
  absl::Status failure_;
  absl::Status latest_failure_;
  int64_t generation_ = 0;
  bool is_writer_ = false;  // of checkpoints, in this generation
  // The files that a model is exported with. Looked for once: they may lie on a
  // slow file server.
  std::vector<CheckpointCompanion> companions_;
  int64_t snapshot_step_ = 0;  // of the last one, or what training began with
  int64_t snapshot_generation_ = 0;  // in which that was taken; 0: in none
  // The bytes of this generation's recorded steps.
  int64_t recorded_sent_bytes_ = 0;
  int64_t recorded_theory_bytes_ = 0;
  std::unique_ptr<CheckpointWriter> writer_;  // once this rank was a writer
  // On rank 0. Kept open as long as this stays rank 0, goes on behind what it
  // recorded and could write it all: opening reads the whole file, while all
  // ranks wait.
  std::unique_ptr<StepFiguresLog> figures_;
  bool figures_failed_ = false;  // a file of `figures_` gets no more
  StepHistory history_;
  int world_size_ = 1;
  int64_t evaluated_step_ = 0;
  int64_t sampled_step_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_OUTPUT_JOB_FILES_H_
