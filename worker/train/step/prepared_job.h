// PreparedJob is a job that a worker has prepared, kept from one generation to
// the next: the training state, the files that the job writes, the prefetcher
// and the text sampler.
//
// It exists as a whole or not at all: if Create fails or throws, nothing is
// left behind, and the next attempt begins anew.
// Thread-safety: on the training thread; the prefetcher, see there.
#ifndef RINGMASTER_WORKER_TRAIN_STEP_PREPARED_JOB_H_
#define RINGMASTER_WORKER_TRAIN_STEP_PREPARED_JOB_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/transport/cancel_token.h"
#include "worker/data/prefetcher.h"
#include "worker/member/job_runner.h"
#include "worker/member/progress_board.h"
#include "worker/train/output/job_files.h"
#include "worker/train/output/text_sampler.h"
#include "worker/train/state/accelerator.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

class PreparedJob {
 public:
  // References must outlive the job.
  struct Options {
    int threads = 1;  // that compute, the calling one included
    Accelerator* accelerator = nullptr;  // computes in their place, if any
    ProgressBoard& board;
    JobFiles::OnNotice on_notice;
    Clock& clock;
  };

  // Reads the data, plans, and initializes the parameters. Errors as
  // ParseProgram, TrainingState::Create and TextSampler::Create;
  //   INVALID_ARGUMENT  the job asks for a text, which the model does not write
  // May throw the standard library's exceptions for exhausted memory.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PreparedJob>> Create(
      const v1::TrainProgram& program, const RankAssignment& assignment,
      const CancelToken& cancel, const Options& options);

  // Reserves buffers in the model for the rank's part of a batch. Errors as
  // TrainingState::ReserveBatch.
  [[nodiscard]] absl::Status ReserveBatch(const RankAssignment& assignment);

  // Starts to prepare the rank's batches, from `first_step` on. Errors as
  // Prefetcher::Start.
  [[nodiscard]] absl::Status StartPrefetcher(const RankAssignment& assignment,
                                             int64_t first_step);

  const ProgramConfig& config() const { return state_->config(); }
  TrainingState& state() { return *state_; }
  JobFiles& files() { return *files_; }
  // Null: the job asks for no text.
  TextSampler* sampler() { return sampler_.get(); }
  // Exists from the first StartPrefetcher on; later calls may replace it by a
  // larger one.
  Prefetcher& prefetcher() { return *prefetcher_; }

 private:
  explicit PreparedJob(Clock& clock) : clock_(clock) {}

  Clock& clock_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<JobFiles> files_;  // refers to state_
  std::unique_ptr<TextSampler> sampler_;
  std::unique_ptr<Prefetcher> prefetcher_;  // refers to state_
  int64_t prefetcher_capacity_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STEP_PREPARED_JOB_H_
