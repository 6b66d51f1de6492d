#include "worker/train/step/prepared_job.h"

#include <algorithm>
#include <utility>

#include "common/files/file_roots.h"
#include "common/plan/partition.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/directory_identity.h"
#include "worker/checkpoint/directory_owner.h"
#include "worker/train/state/job_paths.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {
namespace {

// Evaluation uses the training buffers; a rank with a tiny part of the batch
// should not evaluate target by target.
constexpr int64_t kMinBufferedTargets = 64;
// But large images have buffers of many times their size.
constexpr int64_t kMaxBufferedPixels = int64_t{1} << 16;

// The rank's samples of a batch.
ElemRange PartOf(const RankAssignment& assignment,
                 const ProgramConfig& config) {
  return config.PartOf(assignment.data_index, assignment.world_size);
}

// Finds a directory that cannot be written, or is another job's, before the first
// checkpoint, or the job's end, does. Only the first rank of a host writes.
absl::Status CheckFiles(const v1::TrainProgram& program,
                        const RankAssignment& assignment) {
  const std::string& directory = program.checkpoint().directory();
  if (directory.empty() || assignment.local_rank != 0) return absl::OkStatus();
  absl::Status status = CheckWritable(directory);
  if (status.ok()) status = ClaimDirectory(directory, assignment.job_id);
  // Whoever names what is not theirs must correct the job.
  const bool is_jobs_error =
      IsOutsideRoots(status) || IsOthersDirectory(status);
  return WithExitCode(Annotate(status, "train.checkpoint.directory"),
                      is_jobs_error ? ExitCode::kUsage : ExitCode::kUnreadable);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedJob>> PreparedJob::Create(
    const v1::TrainProgram& program, const RankAssignment& assignment,
    const CancelToken& cancel, const Options& options) {
  // Tensor cores give bfloat16 many times the speed of float32; CPUs do not.
  ASSIGN_OR_RETURN(const ProgramConfig config,
                   ParseProgram(program, options.accelerator == nullptr
                                             ? Precision::kFloat32
                                             : Precision::kBFloat16));
  RETURN_IF_ERROR(CheckPaths(config.program, ProcessFiles()));
  RETURN_IF_ERROR(CheckFiles(config.program, assignment));
  TrainingState::Options state_options;
  state_options.threads = options.threads;
  state_options.accelerator = options.accelerator;
  state_options.ranks_on_host = assignment.local_world_size;
  state_options.world_size = assignment.world_size;
  state_options.local_batch = PartOf(assignment, config).count;
  state_options.cancel = &cancel;
  state_options.is_newcomer =
      assignment.is_newcomer ||
      (config.parameter_server.has_value() && assignment.resume_step > 0);
  std::unique_ptr<PreparedJob> job(new PreparedJob(options.clock));
  ASSIGN_OR_RETURN(job->state_, TrainingState::Create(config, state_options));
  ASSIGN_OR_RETURN(
      job->sampler_,
      TextSampler::OfJob(job->state_->config(), job->state_->model().input()));
  job->files_ =
      std::make_unique<JobFiles>(*job->state_, assignment.job_id, options.board,
                                 options.on_notice, options.clock);
  return job;
}

absl::Status PreparedJob::ReserveBatch(const RankAssignment& assignment) {
  RETURN_IF_ERROR(state_->CheckFitsAmong(assignment.world_size));
  const int64_t fewest = std::max<int64_t>(
      1, std::min(kMinBufferedTargets / state_->targets(),
                  kMaxBufferedPixels /
                      std::max<int64_t>(1, state_->dataset().shape().pixels)));
  return state_->ReserveBatch(
      std::max(PartOf(assignment, config()).count, fewest));
}

absl::Status PreparedJob::StartPrefetcher(const RankAssignment& assignment,
                                          int64_t first_step) {
  const ElemRange part = PartOf(assignment, config());
  if (prefetcher_ == nullptr || prefetcher_capacity_ < part.count) {
    prefetcher_capacity_ = std::max<int64_t>(part.count, 1);
    prefetcher_.reset();
    prefetcher_ = std::make_unique<Prefetcher>(
        state_->dataset(), state_->sampler(),
        Prefetcher::Options{.global_batch = config().program.global_batch(),
                            .sample_group = config().sample_group(),
                            .max_local_batch = prefetcher_capacity_},
        clock_);
  }
  return prefetcher_->Start(first_step, assignment.data_index,
                            assignment.world_size);
}

}  // namespace ringmaster
