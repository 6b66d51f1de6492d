// TrainingState is what a worker knows of a job and keeps from one generation
// to the next.
//
// Data set, plan, arenas and position: everything but the connections. Its two
// step numbers carry the recovery rule: `applied_step` is the last update made;
// `complete_step` is applied_step, or applied_step + 1 while the gradients
// arena holds that step's whole reduced gradient.
//
// Thread-safety: thread-compatible; on the training thread.
#ifndef RINGMASTER_WORKER_TRAIN_TRAINING_STATE_H_
#define RINGMASTER_WORKER_TRAIN_TRAINING_STATE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/arena.h"
#include "common/transport/cancel_token.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"
#include "worker/device/device.h"
#include "worker/nn/model.h"
#include "worker/train/program_config.h"
#include "worker/train/trainer.h"

namespace ringmaster {

class TrainingState {
 public:
  // Reads the data, plans, and initializes the parameters. Errors name the
  // field or path and carry an exit code (5 where the data cannot be read).
  //   ABORTED  `cancel`, which may be null, was cancelled while data was read
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainingState>> Create(
      const ProgramConfig& config, const CancelToken* cancel = nullptr);

  // Gives the model buffers for a rank's part of up to `local_batch` samples;
  // keeps them if they suffice.
  [[nodiscard]] absl::Status ReserveBatch(int64_t local_batch);

  // Settles what a generation begins with: makes the update of the complete
  // step if that is `resume_step`, or forgets it.
  //   FAILED_PRECONDITION  `resume_step` is neither applied_step nor
  //   complete_step
  [[nodiscard]] absl::Status ResumeAt(int64_t resume_step);

  // Marks `step` = applied_step + 1 as complete: the gradients arena now holds
  // its whole reduced gradient.
  void MarkComplete(int64_t step);
  // Makes the update of the complete step from the reduced gradient; leaves it
  // out if the gradient is not finite.
  void ApplyComplete();
  [[nodiscard]] uint64_t ParametersHash() const;

  [[nodiscard]] PlanAgreement Agreement() const;

  const ProgramConfig& config() const { return config_; }
  const Plan& plan() const { return *plan_; }
  const Dataset& dataset() const { return *dataset_; }
  const PermutationSampler& sampler() const { return *sampler_; }
  Model<float>& model() { return *model_; }
  // Of a sample.
  int64_t targets() const { return model_->input().shape.targets; }
  const Arena& gradients() const { return *gradients_; }
  const Arena& parameters() const { return *parameters_; }
  int64_t applied_step() const { return applied_step_; }
  int64_t complete_step() const { return complete_step_; }
  // Square of the norm of the complete step's reduced gradient; equal on all
  // ranks, bit for bit.
  double complete_norm_squared() const { return complete_norm_squared_; }
  // Updates left out because the gradient was not finite, since the last one
  // that was made.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

 private:
  explicit TrainingState(const ProgramConfig& config) : config_(config) {}
  [[nodiscard]] absl::Status MakeModel(int64_t max_batch);
  [[nodiscard]] absl::Status MakePlan();
  [[nodiscard]] absl::Status AllocateArenas();

  ProgramConfig config_;
  std::unique_ptr<Device>
      device_;  // before the arenas, which give their memory back to it
  ThreadPool pool_{1};
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<PermutationSampler> sampler_;
  std::unique_ptr<Model<float>> model_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Arena> parameters_;
  std::unique_ptr<Arena> gradients_;
  std::unique_ptr<Arena> first_moment_;
  std::unique_ptr<Arena> second_moment_;
  int64_t applied_step_ = 0;
  int64_t complete_step_ = 0;
  double complete_norm_squared_ = 0;
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TRAINING_STATE_H_
