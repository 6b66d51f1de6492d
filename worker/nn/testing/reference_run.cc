#include "worker/nn/testing/reference_run.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "common/status/status_macros.h"
#include "common/sync/thread_pool.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

class IgnoreGradients final : public GradientObserver {
 public:
  void OnTensorDone(int /*tensor_index*/) override {}
};

absl::Status Validate(const ReferenceJob& job,
                      absl::Span<const int64_t> steps) {
  RETURN_IF_ERROR(job.optimizer.Validate());
  if (job.global_batch < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "global_batch is ", job.global_batch, ", but must be at least 1"));
  }
  if (steps.empty() || steps.front() < 0 ||
      !std::is_sorted(steps.begin(), steps.end())) {
    return absl::InvalidArgumentError(
        "steps must be ascending, from 0 on, and at least one");
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::StatusOr<std::vector<ReferenceResult<T>>> RunReference(
    const ReferenceJob& job, absl::Span<const int64_t> steps) {
  RETURN_IF_ERROR(Validate(job, steps));
  ThreadPool pool(1);
  const Compute compute = {.pool = pool};
  ASSIGN_OR_RETURN(std::unique_ptr<Model<T>> model,
                   CreateModel<T>(job.model, compute, job.global_batch));
  DataConfig data = job.data;
  data.shape = model->input().shape;
  data.vocabulary = model->input().vocabulary;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, CreateDataset(data));
  ASSIGN_OR_RETURN(Plan plan, Plan::Create(job.model.kind, model->specs(), {}));
  const PermutationSampler sampler(job.data.seed, dataset->size(Split::kTrain));
  const size_t total = static_cast<size_t>(plan.total_elems());
  std::vector<T> parameters(total);
  std::vector<T> gradients(total);
  std::vector<T> first_moment(total);
  std::vector<T> second_moment(total);
  InitializeParameters<T>(plan, job.seed, absl::MakeSpan(parameters));
  RETURN_IF_ERROR(model->Bind(plan, parameters, absl::MakeSpan(gradients)));

  Batch batch(job.global_batch, data.shape);
  std::vector<int64_t> ids(static_cast<size_t>(job.global_batch));
  std::vector<double> losses;
  std::vector<ReferenceResult<T>> results;
  IgnoreGradients observer;
  const double mean =
      1.0 / static_cast<double>(job.global_batch * data.shape.targets);
  for (int64_t step = 0; step <= steps.back(); ++step) {
    if (step > 0) {
      sampler.SamplesOf(step, job.global_batch, {0, job.global_batch},
                        absl::MakeSpan(ids));
      RETURN_IF_ERROR(dataset->FillBatch(Split::kTrain, ids, batch));
      losses.push_back(
          mean * model->ForwardBackward(batch, {.scale = mean}, observer));
      Update update;
      update.step = step;
      update.learning_rate =
          LearningRateAt(job.optimizer.schedule, job.optimizer.learning_rate,
                         step, steps.back());
      update.gradient_scale =
          ClipFactor(SumOfGradientSquares<T>(absl::MakeConstSpan(gradients),
                                             plan.statistic_elems()),
                     job.optimizer.clip_norm);
      for (const PlannedTensor& tensor : plan.tensors()) {
        const auto part = [&tensor](std::vector<T>& arena) {
          return absl::MakeSpan(arena).subspan(
              static_cast<size_t>(tensor.range.begin),
              static_cast<size_t>(tensor.range.count));
        };
        update.decays = DecaysWeights(job.optimizer, tensor.spec.shape.rank());
        update.tracking_rate = tensor.spec.tracking_rate;
        ApplyOptimizer<T>(pool, job.optimizer, update,
                          {part(parameters), part(gradients),
                           part(first_moment), part(second_moment)});
      }
    }
    while (results.size() < steps.size() && steps[results.size()] == step)
      results.push_back({parameters, losses});
  }
  return results;
}

template absl::StatusOr<std::vector<ReferenceResult<float>>>
RunReference<float>(const ReferenceJob&, absl::Span<const int64_t>);
template absl::StatusOr<std::vector<ReferenceResult<double>>>
RunReference<double>(const ReferenceJob&, absl::Span<const int64_t>);

}  // namespace ringmaster
