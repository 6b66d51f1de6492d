#include "worker/train/training_state.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/optimizer/adamw.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/parameter_hash.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

// Data that cannot be used is 5, a job that is written wrongly is 2.
absl::Status AsDataError(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kUnreadable);
}

absl::StatusOr<std::unique_ptr<Arena>> MakeArena(ArenaRole role,
                                                 int64_t num_elems,
                                                 Allocator& allocator) {
  ASSIGN_OR_RETURN(Arena arena,
                   Arena::Create(role, DType::kFloat32, num_elems, allocator));
  return std::make_unique<Arena>(std::move(arena));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingState>> TrainingState::Create(
    const ProgramConfig& config, const CancelToken* cancel) {
  std::unique_ptr<TrainingState> state(new TrainingState(config));
  ASSIGN_OR_RETURN(state->device_, OpenDevice("cpu"));
  RETURN_IF_ERROR(state->MakeModel(/*max_batch=*/0));
  DataConfig data = config.data;
  data.shape = state->model_->input().shape;
  data.vocabulary = state->model_->input().vocabulary;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset =
      CreateDataset(data, cancel);
  if (absl::IsAborted(dataset.status())) return dataset.status();
  if (!dataset.ok()) return AsDataError(dataset.status());
  state->dataset_ = *std::move(dataset);
  state->sampler_ = std::make_unique<PermutationSampler>(
      config.data.seed, state->dataset_->size(Split::kTrain));
  RETURN_IF_ERROR(state->MakePlan());
  RETURN_IF_ERROR(state->AllocateArenas());
  InitializeParameters(*state->plan_, config.seed,
                       state->parameters_->Elems<float>());
  RETURN_IF_ERROR(state->ReserveBatch(0));
  return state;
}

absl::Status TrainingState::MakeModel(int64_t max_batch) {
  ASSIGN_OR_RETURN(
      model_, CreateModel<float>(config_.model, {.pool = pool_}, max_batch));
  return absl::OkStatus();
}

absl::Status TrainingState::MakePlan() {
  PlanOptions options;
  options.bucket_bytes = config_.bucket_bytes;
  options.settings = config_.CanonicalText();
  ASSIGN_OR_RETURN(Plan plan,
                   Plan::Create(config_.model.kind, model_->specs(), options));
  plan_ = std::make_unique<Plan>(std::move(plan));
  return absl::OkStatus();
}

absl::Status TrainingState::AllocateArenas() {
  const int64_t num_elems = plan_->total_elems();
  Allocator& allocator = device_->allocator();
  ASSIGN_OR_RETURN(parameters_,
                   MakeArena(ArenaRole::kParameters, num_elems, allocator));
  ASSIGN_OR_RETURN(gradients_,
                   MakeArena(ArenaRole::kGradients, num_elems, allocator));
  ASSIGN_OR_RETURN(first_moment_,
                   MakeArena(ArenaRole::kFirstMoment, num_elems, allocator));
  ASSIGN_OR_RETURN(second_moment_,
                   MakeArena(ArenaRole::kSecondMoment, num_elems, allocator));
  return absl::OkStatus();
}

absl::Status TrainingState::ReserveBatch(int64_t local_batch) {
  if (model_->max_batch() < local_batch) {
    RETURN_IF_ERROR(MakeModel(local_batch));
  }
  return model_->Bind(*plan_, parameters_->Elems<float>(),
                      gradients_->Elems<float>());
}

absl::Status TrainingState::ResumeAt(int64_t resume_step) {
  if (resume_step == complete_step_ && resume_step == applied_step_ + 1)
    ApplyComplete();
  if (resume_step != applied_step_) {
    return absl::FailedPreconditionError(
        absl::StrFormat("asked to resume at step %d, but step %d is applied "
                        "and step %d complete here; this rank cannot take part",
                        resume_step, applied_step_, complete_step_));
  }
  complete_step_ = applied_step_;
  return absl::OkStatus();
}

void TrainingState::MarkComplete(int64_t step) {
  RM_CHECK(step == applied_step_ + 1,
           "a step completes right after the applied one");
  complete_step_ = step;
  complete_norm_squared_ =
      SumOfSquares(absl::Span<const float>(gradients_->Elems<float>()));
}

void TrainingState::ApplyComplete() {
  RM_CHECK(complete_step_ == applied_step_ + 1,
           "there is a complete step to apply");
  if (std::isfinite(complete_norm_squared_)) {
    // The gradients are sums of parts that were already divided by the global
    // batch, so the sum is the mean.
    const double scale =
        ClipFactor(complete_norm_squared_, config_.optimizer.clip_norm);
    for (const Bucket& bucket : plan_->buckets()) {
      ApplyAdamW<float>(config_.optimizer, complete_step_, scale,
                        {parameters_->Slice<float>(bucket.range),
                         gradients_->Slice<float>(bucket.range),
                         first_moment_->Slice<float>(bucket.range),
                         second_moment_->Slice<float>(bucket.range)});
    }
    skipped_in_a_row_ = 0;
  } else {
    ++skipped_in_a_row_;
  }
  applied_step_ = complete_step_;
}

uint64_t TrainingState::ParametersHash() const {
  return HashParameters(*parameters_);
}

PlanAgreement TrainingState::Agreement() const {
  PlanAgreement agreement;
  agreement.plan_hash = plan_->hash();
  agreement.data_fingerprint = dataset_->fingerprint();
  agreement.summary = absl::StrFormat(
      "plan %016x (%s, %d parameters, %d buckets, global batch %d, seed %d), "
      "data %016x (%s, %d samples, %d held out)",
      plan_->hash(), config_.model.CanonicalText(), plan_->parameter_count(),
      plan_->buckets().size(), config_.global_batch, config_.seed,
      dataset_->fingerprint(),
      config_.data.kind == "text" ? config_.data.path : config_.data.kind,
      dataset_->size(Split::kTrain), dataset_->size(Split::kHeldOut));
  return agreement;
}

}  // namespace ringmaster
