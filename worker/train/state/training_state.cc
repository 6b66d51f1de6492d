#include "worker/train/state/training_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/machine/memory_limits.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/parameter_hash.h"
#include "common/optimizer/schedule.h"
#include "common/plan/counter_random.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model_registry.h"
#include "worker/train/state/job_inputs.h"
#include "worker/train/state/memory_check.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

// Elements that are hashed between two looks at a cancel token: some
// milliseconds.
constexpr size_t kHashedElems = size_t{4} << 20;

// Tells the plan's hash of a worker that computes on a GPU from another's.
constexpr uint64_t kOnGpuStream = 0x677075;  // "gpu"

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingState>> TrainingState::Create(
    const ProgramConfig& config, const Options& options) {
  std::unique_ptr<TrainingState> state(new TrainingState(config, options));
  RETURN_IF_ERROR(state->CheckPrecisionAndDevice());
  RETURN_IF_ERROR(state->MakeModel(/*max_batch=*/0));
  RETURN_IF_ERROR(state->ReadData(options.cancel));
  RETURN_IF_ERROR(state->MakePlan());
  // Before each allocation what is known, since allocated pages are zeroed.
  RETURN_IF_ERROR(state->CheckFitsInMemory(/*activation_bytes=*/0));
  RETURN_IF_ERROR(state->MakeArenas());
  RETURN_IF_ERROR(state->ReserveBatch(options.local_batch));
  RETURN_IF_ERROR(state->CheckFitsInMemory(state->model_->buffer_bytes()));
  if (options.is_newcomer) {
    state->BecomeNewcomer();
  } else {
    RETURN_IF_ERROR(state->InitializeArenas());
  }
  return state;
}

absl::Status TrainingState::CheckPrecisionAndDevice() const {
  if (is_sharded() && accelerator_ != nullptr) {
    return absl::InvalidArgumentError(
        "train.optimizer_sharding: workers that compute on a GPU keep all "
        "moments; leave it out, or start these with --device=cpu");
  }
  if (accelerator_ == nullptr) {
    if (config_.precision == Precision::kFloat32 ||
        config_.precision == Precision::kBFloat16) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "train.precision: workers compute ", PrecisionName(config_.precision),
        " on GPUs only; start them with --device=cuda"));
  }
  if (has_servers() && config_.precision == Precision::kFloat16) {
    return absl::InvalidArgumentError(
        "train.precision: float16 scales its gradients, which "
        "train.parameter_server does not know of; use bfloat16");
  }
  if (config_.emulation.is_on()) {
    return absl::InvalidArgumentError(
        "train.emulate_compute: workers that compute on a GPU emulate nothing; "
        "start these with --device=cpu");
  }
  return absl::OkStatus();
}

absl::Status TrainingState::ReadData(const CancelToken* cancel) {
  ASSIGN_OR_RETURN(dataset_, OpenDataset(config_, model_->input(), cancel));
  sampler_ = std::make_unique<PermutationSampler>(
      config_.data.seed, dataset_->size(Split::kTrain));
  return absl::OkStatus();
}

absl::Status TrainingState::InitializeArenas() {
  const ArenaSpans<float> arenas = arenas_->host();
  arenas_->MarkHostNewest();
  // New ones are zero as they are; writing to them would make pages real.
  if (is_overwritten_) arenas_->ClearMoments();
  is_updated_ = false;
  complete_step_ = 0;
  // Also where parameters are read: a head may be one of its own.
  InitializeParameters(*plan_, config_.program.seed(), arenas.parameters);
  if (config_.program.initial_parameters().empty()) return absl::OkStatus();
  return ReadInitialParameters(config_, *plan_, arenas.parameters);
}

absl::Status TrainingState::MakeModel(int64_t max_batch) {
  if (accelerator_ != nullptr) {
    ASSIGN_OR_RETURN(model_, accelerator_->CreateModel(
                                 config_.model, config_.precision, max_batch));
    return absl::OkStatus();
  }
  const Compute compute = {.pool = pool_, .precision = config_.precision};
  ASSIGN_OR_RETURN(model_,
                   CreateModel<float>(config_.model, compute, max_batch));
  if (config_.emulation.is_on()) {
    model_ =
        EmulateCompute(std::move(model_), config_.emulation, Clock::Real());
  }
  return absl::OkStatus();
}

absl::Status TrainingState::GrowModel(int64_t max_batch) {
  if (model_->max_batch() > 0) {
    // Checked again, since after a loss the other ranks take over its part of
    // the batch: better refused here than killed by the kernel.
    RETURN_IF_ERROR(CheckFitsInMemory(model_->buffer_bytes() /
                                      model_->max_batch() * max_batch));
  }
  RETURN_IF_ERROR(MakeModel(0));  // gives the smaller buffers back first
  return MakeModel(max_batch);
}

absl::Status TrainingState::CheckFitsInMemory(int64_t activation_bytes) const {
  return CheckMemory(
      MemoryNeedsOf(config_,
                    {.arena_bytes = plan_->total_elems() *
                                    static_cast<int64_t>(sizeof(float)),
                     .activation_bytes = activation_bytes,
                     .ranks_on_host = ranks_on_host_,
                     .world_size = world_size_,
                     .has_accelerator = accelerator_ != nullptr}),
      ranks_on_host_, MemoryLimitBytes());
}

absl::Status TrainingState::MakePlan() {
  PlanOptions options;
  options.bucket_bytes = config_.program.bucket_bytes();
  options.settings = config_.CanonicalText();
  ASSIGN_OR_RETURN(Plan plan,
                   Plan::Create(config_.model.kind, model_->specs(), options));
  plan_ = std::make_unique<Plan>(std::move(plan));
  return absl::OkStatus();
}

absl::Status TrainingState::MakeArenas() {
  Allocator& allocator =
      accelerator_ == nullptr ? heap_ : accelerator_->host_allocator();
  ASSIGN_OR_RETURN(arenas_,
                   StateArenas::Create({.plan = *plan_,
                                        .config = config_,
                                        .pool = pool_,
                                        .allocator = allocator,
                                        .accelerator = accelerator_,
                                        .ranks_on_host = ranks_on_host_}));
  return absl::OkStatus();
}

absl::Status TrainingState::ForgetLoaded() {
  is_loaded_ = false;
  loss_scale_ = FirstLossScale();
  evaluations_ = EvaluationHistory();
  if (!is_overwritten_) return absl::OkStatus();
  RETURN_IF_ERROR(InitializeArenas());
  is_overwritten_ = false;
  return absl::OkStatus();
}

ArenaSpans<float> TrainingState::MutableArenas() {
  is_overwritten_ = true;
  arenas_->MarkHostNewest();
  return arenas_->host();
}

int64_t TrainingState::micro_batch(int64_t local_batch) const {
  return config_.program.micro_batch() == 0
             ? local_batch
             : std::min(config_.program.micro_batch(), local_batch);
}

double TrainingState::learning_rate() const {
  return LearningRateAt(config_.optimizer.schedule,
                        config_.optimizer.learning_rate, applied_step_ + 1,
                        config_.program.steps());
}

absl::Status TrainingState::ReserveBatch(int64_t local_batch) {
  const int64_t wanted = micro_batch(local_batch);
  if (model_->max_batch() < wanted) RETURN_IF_ERROR(GrowModel(wanted));
  return arenas_->Bind(*model_);
}

absl::Status TrainingState::CheckFitsAmong(int world_size) {
  if (!is_sharded() || world_size == world_size_) return absl::OkStatus();
  world_size_ = world_size;
  return CheckFitsInMemory(model_->buffer_bytes());
}

absl::Span<float> TrainingState::next_parameters() {
  return arenas_->next_parameters();
}

void TrainingState::FollowServers(int64_t resume_step) {
  applied_step_ = resume_step;
  complete_step_ = resume_step;
  is_loaded_ = false;
}

void TrainingState::BecomeNewcomer() {
  applied_step_ = 0;
  complete_step_ = 0;
  skipped_in_a_row_ = 0;
  loss_scale_ = FirstLossScale();
  evaluations_ = EvaluationHistory();
  is_loaded_ = false;
  is_overwritten_ = true;
  held_parts_.clear();
  is_updated_ = false;
  norm_step_ = 0;
}

LossScale TrainingState::FirstLossScale() const {
  return config_.precision == Precision::kFloat16 ? LossScale::Dynamic()
                                                  : LossScale();
}

void TrainingState::TakeOver(int64_t step, int64_t skipped_in_a_row,
                             const LossScale& loss_scale) {
  RM_CHECK(applied_step_ == 0 && complete_step_ == 0 && step > 0,
           "a state is copied to a rank without one");
  applied_step_ = step;
  complete_step_ = step;
  skipped_in_a_row_ = skipped_in_a_row;
  if (loss_scale_.is_dynamic()) loss_scale_ = loss_scale;
}

void TrainingState::MarkLoaded(int64_t step,
                               const std::optional<LossScale>& loss_scale,
                               const EvaluationHistory& evaluations) {
  RM_CHECK(applied_step_ == 0 && step > 0, "a job starts with a checkpoint");
  complete_step_ = step;
  if (loss_scale_.is_dynamic())
    loss_scale_ = loss_scale.value_or(FirstLossScale());
  evaluations_ = evaluations;
  is_loaded_ = true;
}

void TrainingState::ApplyLoaded() {
  RM_CHECK(is_loaded_, "there is a checkpoint to start with");
  applied_step_ = complete_step_;
  is_loaded_ = false;
}

bool TrainingState::IsPending() const {
  return is_sharded() && complete_step_ == applied_step_ + 1;
}

absl::Status TrainingState::ResumeAt(int64_t resume_step) {
  // The others' parts are needed too.
  if (!is_loaded_ && IsPending() && resume_step == complete_step_)
    return absl::OkStatus();
  if (is_loaded_ && resume_step == complete_step_) {
    ApplyLoaded();
  } else if (applied_step_ == 0 && resume_step == 0) {
    RETURN_IF_ERROR(ForgetLoaded());
  } else if (resume_step == complete_step_ &&
             resume_step == applied_step_ + 1) {
    RETURN_IF_ERROR(ApplyComplete());
  }
  if (resume_step != applied_step_ || is_updated_) {
    return absl::FailedPreconditionError(
        absl::StrFormat("asked to resume at step %d, but step %d is applied "
                        "and step %d complete here; this rank cannot take part",
                        resume_step, applied_step_, complete_step_));
  }
  complete_step_ = applied_step_;
  return absl::OkStatus();
}

// The sum of the parts' norms in the order of ranks, also where a rank has them
// all: sharding changes no bit.
absl::Status TrainingState::MarkComplete(int64_t step, int world_size) {
  RM_CHECK(step == applied_step_ + 1,
           "a step completes right after the applied one");
  std::vector<MomentPart> parts = held_parts_;
  if (!is_sharded()) {
    parts.clear();
    for (int rank = 0; rank < world_size; ++rank)
      parts.push_back({world_size, rank});
  }
  ASSIGN_OR_RETURN(part_norms_squared_, arenas_->GradientNormsSquared(parts));
  for (double& norm_squared : part_norms_squared_)
    norm_squared /= loss_scale_.value() * loss_scale_.value();
  complete_norm_squared_ =
      is_sharded() ? std::numeric_limits<double>::quiet_NaN()
                   : std::accumulate(part_norms_squared_.begin(),
                                     part_norms_squared_.end(), 0.0);
  complete_step_ = step;
  return absl::OkStatus();
}

absl::Status TrainingState::UpdateHeld() {
  RM_CHECK(IsPending(), "there is a complete step to apply");
  if (is_updated_) return absl::OkStatus();
  if (std::isfinite(complete_norm_squared_))
    RETURN_IF_ERROR(UpdateParameters());
  is_updated_ = true;
  return absl::OkStatus();
}

void TrainingState::KeepPartsOf(int rank, const Topology& ranks) {
  ranks_ = ranks;
  held_parts_ = PartsOfRank(rank);
  ReleaseOthers();
}

void TrainingState::AddParts(absl::Span<const MomentPart> parts) {
  for (const MomentPart& part : parts) {
    if (std::ranges::find(held_parts_, part) == held_parts_.end())
      held_parts_.push_back(part);
  }
}

void TrainingState::MarkFetched(int64_t step, double norm_squared) {
  RM_CHECK(has_servers() && step == applied_step_ + 1,
           "a step completes right after the applied one");
  complete_step_ = step;
  complete_norm_squared_ = norm_squared;
}

absl::Status TrainingState::ApplyComplete() {
  RM_CHECK(complete_step_ == applied_step_ + 1,
           "there is a complete step to apply");
  const bool is_finite = std::isfinite(complete_norm_squared_);
  if (has_servers()) {
    RETURN_IF_ERROR(arenas_->TakeNext());
    is_overwritten_ = true;
    // An accelerator's arenas stay where they are.
    if (accelerator_ == nullptr) {
      const absl::Status bound = arenas_->Bind(*model_);
      RM_CHECK(bound.ok(), "a model takes one arena as well as another");
    }
  } else if (is_sharded()) {
    RM_CHECK(std::exchange(is_updated_, false), "the held parts are updated");
  } else if (is_finite) {
    RETURN_IF_ERROR(UpdateParameters());
  }
  if (is_finite) {
    skipped_in_a_row_ = 0;
  } else if (!loss_scale_.can_fall()) {
    ++skipped_in_a_row_;
  }
  loss_scale_.Note(is_finite);
  applied_step_ = complete_step_;
  return absl::OkStatus();
}

absl::Status TrainingState::UpdateParameters() {
  // The gradients are sums of parts that were already divided by the global
  // batch, so the sum is the mean.
  return arenas_->Apply(
      {.step = complete_step_,
       .learning_rate = learning_rate(),
       .gradient_scale =
           ClipFactor(complete_norm_squared_, config_.optimizer.clip_norm) /
           loss_scale_.value(),
       .statistic_scale = 1 / loss_scale_.value()});
}

uint64_t TrainingState::ParametersHash() const {
  return HashParameters(arenas_->parameters());
}

absl::StatusOr<uint64_t> TrainingState::Hash(const CancelToken& cancel) const {
  uint64_t hash = 0;  // of each piece with that of those before it as the seed
  for (absl::Span<const float> elems :
       {absl::Span<const float>(parameters().Elems<float>()), first_moment(),
        second_moment()}) {
    while (!elems.empty()) {
      RETURN_IF_ERROR(cancel.status());
      const absl::Span<const float> piece = elems.subspan(0, kHashedElems);
      elems.remove_prefix(piece.size());
      hash = XXH3_64bits_withSeed(piece.data(), piece.size() * sizeof(float),
                                  hash);
    }
  }
  return hash;
}

PlanAgreement TrainingState::Agreement() const {
  PlanAgreement agreement;
  agreement.plan_hash = plan_->hash();
  agreement.data_fingerprint = dataset_->fingerprint();
  agreement.data = dataset_->identity();
  agreement.summary = absl::StrFormat(
      "plan %016x (%s, %d parameters, %d buckets, global batch %d, seed %d), "
      "data %016x (%s, %d samples, %d held out)",
      plan_->hash(), config_.model.CanonicalText(), plan_->parameter_count(),
      plan_->buckets().size(), config_.program.global_batch(),
      config_.program.seed(), dataset_->fingerprint(),
      config_.data.path.empty() ? config_.data.kind : config_.data.path,
      dataset_->size(Split::kTrain), dataset_->size(Split::kHeldOut));
  // Ranks on GPUs and on CPUs reduce gradients in incompatible ways.
  if (accelerator_ != nullptr)
    agreement.plan_hash = CounterRandom(agreement.plan_hash, kOnGpuStream);
  absl::StrAppend(&agreement.summary, ", ", PrecisionName(config_.precision),
                  accelerator_ == nullptr ? " on a CPU" : " on a GPU");
  return agreement;
}

}  // namespace ringmaster
