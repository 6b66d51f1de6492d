// TrainingState is the state of a job that a worker keeps from one generation
// to the next.
//
// Data set, plan, arenas and position: everything but the connections. Its two
// step numbers carry the recovery rule: `applied_step` is the last update made;
// `complete_step` is applied_step, or applied_step + 1 while the gradients
// arena holds that step's whole reduced gradient.
//
// A checkpoint is loaded by the same rule: with applied_step 0 and the
// checkpoint's step complete, this rank holds the checkpoint's parameters but
// does not know yet that all others do; once it knows, the step is applied.
//
// Where the moments are sharded (moment_parts.h), the reduced gradient is that
// of the parts that this rank has, and an update has a second half: the other
// parameters are gathered. Between the two the step is complete and updated,
// but not applied. A generation that begins with such a step, or with other
// parts than the last one, is settled by all ranks together (settle_parts.h).
//
// If parameter servers hold the parameters, those here are a copy: a step is
// complete once its parameters are in next_parameters(), its update makes them
// the current ones, and a generation begins by fetching all, so any resume step
// will do. Moments are then kept only if room for them was reserved.
//
// Thread-safety: thread-compatible; on the training thread.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_TRAINING_STATE_H_
#define RINGMASTER_WORKER_TRAIN_STATE_TRAINING_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/optimizer/loss_scale.h"
#include "common/parameter_server/shard_layout.h"
#include "common/plan/arena.h"
#include "common/plan/plan.h"
#include "common/plan/topology.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/allocator.h"
#include "common/transport/cancel_token.h"
#include "worker/checkpoint/evaluation_history.h"
#include "worker/collective/communicator.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"
#include "worker/member/job_runner.h"
#include "worker/nn/model.h"
#include "worker/train/state/accelerator.h"
#include "worker/train/state/moment_parts.h"
#include "worker/train/state/program_config.h"
#include "worker/train/state/state_arenas.h"

namespace ringmaster {

class TrainingState {
 public:
  struct Options {
    int threads = 1;        // that compute, the calling one included
    int ranks_on_host = 1;  // that share its memory
    int world_size = 1;
    // As for ReserveBatch.
    int64_t local_batch = 0;
    const CancelToken* cancel = nullptr;  // may be null
    // The state will be copied from another rank: the parameters are left as
    // they are, as by BecomeNewcomer.
    bool is_newcomer = false;
    // The accelerator that computes; null: the host's processor does.
    Accelerator* accelerator = nullptr;
  };
  // Reads the data, plans, and initializes the parameters. Errors name the
  // field or path and carry an exit code (5 where a file cannot be read).
  //   RESOURCE_EXHAUSTED  the memory of the host, or of the accelerator, cannot
  //                       hold the job; with figures
  //   ABORTED             `cancel` was cancelled while data was read
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainingState>> Create(
      const ProgramConfig& config, const Options& options);
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainingState>> Create(
      const ProgramConfig& config) {
    return Create(config, Options());
  }

  // Gives the model buffers for micro-batches of a rank's part of up to
  // `local_batch` samples; keeps them if they suffice.
  //   RESOURCE_EXHAUSTED  there is no memory, or larger buffers than these will
  //                       not fit in it
  [[nodiscard]] absl::Status ReserveBatch(int64_t local_batch);
  // Where moments are sharded, fewer ranks have more of them each: checks that
  // they fit, RESOURCE_EXHAUSTED as for ReserveBatch.
  [[nodiscard]] absl::Status CheckFitsAmong(int world_size);

  // Settles the state that a generation begins with: makes the update of the
  // complete step if that is `resume_step`, or discards it. At 0 without a
  // step, the initial parameters replace whatever an interrupted copy or
  // checkpoint left behind.
  //   FAILED_PRECONDITION  `resume_step` is neither applied_step nor
  //   complete_step
  [[nodiscard]] absl::Status ResumeAt(int64_t resume_step);

  // The same where servers hold the parameters, and have them as of any step.
  void FollowServers(int64_t resume_step);

  // Forgets all steps: the contents of the arenas do not count until TakeOver
  // or ResumeAt(0).
  void BecomeNewcomer();
  // The arenas hold the state of all ranks after `step`; the last
  // `skipped_in_a_row` updates before it were skipped. Takes their loss scale
  // too. Requires that no step is held.
  void TakeOver(int64_t step, int64_t skipped_in_a_row,
                const LossScale& loss_scale);

  // Whole arenas, for taking over a state or a checkpoint while applied_step is
  // 0.
  ArenaSpans<float> MutableArenas();
  // The arenas hold the contents of a checkpoint of `step`: `step` is complete.
  // If the job's precision needs a loss scale, it continues with the
  // checkpoint's, or starts with the first if the checkpoint has none.
  // `evaluations`: as the checkpoint knows them.
  void MarkLoaded(int64_t step, const std::optional<LossScale>& loss_scale,
                  const EvaluationHistory& evaluations);
  // Discards what was loaded into the arenas, in whole or in part: restores the
  // initial parameters if MutableArenas was called.
  [[nodiscard]] absl::Status ForgetLoaded();
  // All ranks hold the loaded step.
  void ApplyLoaded();

  // Marks `step` = applied_step + 1 as complete: the gradients arena now holds
  // its whole reduced gradient, or, where moments are sharded, that of the held
  // parts. `world_size` ranks have reduced it. The error is an accelerator's.
  [[nodiscard]] absl::Status MarkComplete(int64_t step, int world_size);
  // The same if servers made the update: next_parameters() holds the updated
  // parameters; the gradient's squared norm is `norm_squared`.
  void MarkFetched(int64_t step, double norm_squared);
  // Makes the update of the complete step from the reduced gradient, or takes
  // the servers' update; skips it if the gradient is not finite. Where moments
  // are sharded, the caller has made UpdateHeld before, and gathered the
  // parameters. The error is an accelerator's.
  [[nodiscard]] absl::Status ApplyComplete();

  // ---- Where the moments are sharded.

  [[nodiscard]] bool is_sharded() const { return config_.is_sharded(); }
  // The parts whose moments this rank has; first the one of which it is the
  // owner. None for a newcomer.
  const std::vector<MomentPart>& held_parts() const { return held_parts_; }
  ElemRanges held_ranges() const { return RangesOf(held_parts_, *plan_); }
  // Of the complete step's reduced gradient, for each of held_parts(): as
  // complete_norm_squared, of which all parts' are the sum.
  const std::vector<double>& part_norms_squared() const {
    return part_norms_squared_;
  }
  // The sum, for which other ranks' are needed too. NaN until it is set.
  void SetCompleteNorm(double norm_squared) {
    complete_norm_squared_ = norm_squared;
    norm_step_ = complete_step_;
  }
  // Returns true if the complete norm is known, and that of `step`.
  [[nodiscard]] bool KnowsNormOf(int64_t step) const {
    return norm_step_ == step && step > 0;
  }
  // The first half of the update: parameters and moments of the held parts are
  // as of the complete step from here on. Makes it once.
  [[nodiscard]] absl::Status UpdateHeld();
  [[nodiscard]] bool is_updated() const { return is_updated_; }
  // The moments are divided among `ranks`, and `rank` has those of its parts (of
  // more, maybe): it keeps no others.
  void KeepPartsOf(int rank, const Topology& ranks);
  // The parts of each rank since then.
  [[nodiscard]] std::vector<MomentPart> PartsOfRank(int rank) const {
    return PartsOf(rank, config_.mirrors(), ranks_);
  }
  // It has those of `parts`, too.
  void AddParts(absl::Span<const MomentPart> parts);
  // The memory of moments that it does not keep, for a checkpoint, is given
  // back.
  void ReleaseOthers() { arenas_->KeepMoments(held_ranges()); }
  // The room for moments, also of parts that others have.
  ArenaSpans<float> MutableMoments() { return arenas_->host(); }
  absl::Span<float> MutableParameters() { return arenas_->host().parameters; }

  // The room for the parameters after the next step; empty without servers.
  absl::Span<float> next_parameters();
  // See StateArenas.
  ServerCopies* server_copies() const { return arenas_->server_copies(); }
  // As this rank learned from the others.
  void SetSkippedInARow(int64_t count) { skipped_in_a_row_ = count; }
  // Room for the moments, where servers hold them; theirs are fetched.
  [[nodiscard]] absl::Status ReserveMoments() {
    return arenas_->ReserveMoments();
  }
  // If an accelerator computes, parameters and moments here are copies of its
  // own: they are fetched before they are read, and sent after they were
  // written, before the first step of a generation. Neither call does anything
  // if there is nothing to do.
  [[nodiscard]] absl::Status FetchToHost() { return arenas_->FetchToHost(); }
  [[nodiscard]] absl::Status FetchParameters() {
    return arenas_->FetchParameters();
  }
  [[nodiscard]] absl::Status SendToDevice() { return arenas_->SendToDevice(); }
  // See StateArenas.
  [[nodiscard]] absl::StatusOr<absl::Duration> TakeUpdateTime() {
    return arenas_->TakeUpdateTime();
  }
  // See StateArenas.
  [[nodiscard]] StateArenas::DeviceViews device_views() const {
    return arenas_->device_views();
  }
  void MarkDeviceNewest() { arenas_->MarkDeviceNewest(); }
  [[nodiscard]] uint64_t ParametersHash() const;
  // Returns the hash of all arenas that are kept between steps.
  //   ABORTED  `cancel` was cancelled
  [[nodiscard]] absl::StatusOr<uint64_t> Hash(const CancelToken& cancel) const;

  [[nodiscard]] PlanAgreement Agreement() const;

  const ProgramConfig& config() const { return config_; }
  const Plan& plan() const { return *plan_; }
  const Dataset& dataset() const { return *dataset_; }
  const PermutationSampler& sampler() const { return *sampler_; }
  Model<float>& model() { return *model_; }
  // The targets of a sample.
  int64_t targets() const { return model_->input().shape.targets; }
  bool has_servers() const { return config_.parameter_server.has_value(); }
  // Null: the host's processor computes.
  Accelerator* accelerator() const { return accelerator_; }
  std::span<const UpdateStretch> update_stretches() const {
    return arenas_->update_stretches();
  }
  // See StateArenas.
  BufferView GradientsOf(ElemRange range) const {
    return arenas_->GradientsOf(range);
  }
  const Arena& gradients() const { return arenas_->gradients(); }
  const SharedSegment* shared_gradients() const {
    return arenas_->shared_gradients();
  }
  const Arena& parameters() const { return arenas_->parameters(); }
  absl::Span<const float> first_moment() const {
    return arenas_->first_moment();
  }
  absl::Span<const float> second_moment() const {
    return arenas_->second_moment();
  }
  // The learning rate of the complete step, or else of the next one.
  double learning_rate() const;
  // Most samples that are computed at once.
  int64_t micro_batch(int64_t local_batch) const;
  int threads() const { return pool_.size(); }
  int64_t applied_step() const { return applied_step_; }
  int64_t complete_step() const { return complete_step_; }
  // Square of the norm of the complete step's reduced gradient; equal on all
  // ranks, bit for bit.
  double complete_norm_squared() const { return complete_norm_squared_; }
  // Updates skipped because the gradient was not finite, since the last one
  // that was made; skips that lowered the loss scale do not count.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  // The factor that the next step's loss is multiplied by. The gradients are
  // then scaled too, but neither the norms nor the updates.
  const LossScale& loss_scale() const { return loss_scale_; }
  // The evaluations so far: the same on all ranks, if the job follows them.
  EvaluationHistory& evaluations() { return evaluations_; }
  const EvaluationHistory& evaluations() const { return evaluations_; }

 private:
  TrainingState(const ProgramConfig& config, const Options& options)
      : config_(config),
        ranks_on_host_(options.ranks_on_host),
        world_size_(options.world_size),
        accelerator_(options.accelerator),
        pool_(options.threads),
        loss_scale_(FirstLossScale()) {}
  [[nodiscard]] absl::Status CheckPrecisionAndDevice() const;
  [[nodiscard]] LossScale FirstLossScale() const;
  [[nodiscard]] absl::Status ReadData(const CancelToken* cancel);
  [[nodiscard]] absl::Status MakeModel(int64_t max_batch);
  [[nodiscard]] absl::Status GrowModel(int64_t max_batch);
  [[nodiscard]] absl::Status MakePlan();
  [[nodiscard]] absl::Status MakeArenas();
  [[nodiscard]] absl::Status InitializeArenas();
  [[nodiscard]] absl::Status CheckFitsInMemory(int64_t activation_bytes) const;
  [[nodiscard]] absl::Status UpdateParameters();
  [[nodiscard]] bool IsPending() const;

  ProgramConfig config_;
  const int ranks_on_host_;
  int world_size_;                  // of the last generation that was checked
  Accelerator* const accelerator_;  // null: the host computes
  ThreadPool pool_;
  HeapAllocator heap_;  // before the arenas, which give their memory back to it
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<PermutationSampler> sampler_;
  std::unique_ptr<Model<float>> model_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<StateArenas> arenas_;
  int64_t applied_step_ = 0;
  int64_t complete_step_ = 0;
  bool is_loaded_ = false;  // the complete step is a checkpoint's
  // The arenas may hold something other than the initial parameters or a state
  // trained from them.
  bool is_overwritten_ = false;
  double complete_norm_squared_ = 0;
  // All at first: of zeros everybody has everything.
  std::vector<MomentPart> held_parts_ = {MomentPart{}};
  std::vector<double> part_norms_squared_;
  int64_t norm_step_ = 0;                  // of the last norm that was set
  Topology ranks_ = Topology::OneHost(1);  // that moments are divided among
  // The held parts are as of the complete step, other parameters need not be.
  bool is_updated_ = false;
  int64_t skipped_in_a_row_ = 0;
  LossScale loss_scale_;
  EvaluationHistory evaluations_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_TRAINING_STATE_H_
