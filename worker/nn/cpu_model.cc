#include "worker/nn/cpu_model.h"

#include <algorithm>

#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/data/batch.h"

namespace ringmaster {
namespace {

HostBatch Place(const Batch& batch) {
  return {.size = batch.size(),
          .inputs = batch.inputs().data(),
          .pixels = batch.pixels().data(),
          .targets = batch.targets().data(),
          .sample_ids = batch.sample_ids().data()};
}

}  // namespace

template <typename T>
absl::Status CpuModel<T>::PlanBuffers() {
  RETURN_IF_ERROR(
      buffers_.Plan(allocator_, [this](BufferCutter& cutter) { Cut(cutter); }));
  if (this->input().sample_classes() > 0)
    outcomes_.resize(static_cast<size_t>(max_batch_));
  FillConstants();
  return absl::OkStatus();
}

template <typename T>
absl::Status CpuModel<T>::Bind(const Plan& plan, absl::Span<const T> parameters,
                               absl::Span<T> gradients) {
  ForgetContext();
  return bound_.Bind(this->specs(), plan, parameters, gradients, kind());
}

template <typename T>
double CpuModel<T>::ForwardBackward(const Batch& batch,
                                    const TrainOptions& options,
                                    GradientObserver& observer) {
  ForgetContext();
  bound_.CheckBatch(batch, this->input(), max_batch_);
  HostBatch placed = Place(batch);
  placed.scale = {options.scale, options.label_smoothing};
  placed.dropout_key = options.dropout_key;
  PassSums sums;
  Train(placed, {options.write, options.cancel}, observer, &sums);
  return sums.loss_sum;
}

template <typename T>
Prediction CpuModel<T>::Predict(const Batch& batch) {
  ForgetContext();
  bound_.CheckBatch(batch, this->input(), max_batch_);
  PassSums sums;
  has_outcomes_ = false;
  Evaluate(Place(batch), &sums);
  Prediction prediction = {.loss_sum = sums.predicted_loss,
                           .correct = sums.correct};
  if (has_outcomes_)
    prediction.outcomes = {outcomes_.data(), static_cast<size_t>(batch.size())};
  return prediction;
}

template <typename T>
PlacedContext<HostBatch> CpuModel<T>::PlaceContext(
    absl::Span<const int32_t> context, WindowPadding padding, int64_t window) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
           "a model that continues text has some, buffers and parameters");
  const bool is_longer =
      is_context_kept_ && padding == WindowPadding::kAfter &&
      static_cast<int64_t>(context.size()) <= window &&
      context.size() > context_.size() &&
      std::equal(context_.begin(), context_.end(), context.begin());
  const auto known = is_longer ? static_cast<int64_t>(context_.size()) : 0;
  const int64_t seen = std::min(static_cast<int64_t>(context.size()), window);
  const int64_t tokens = padding == WindowPadding::kBefore ? window : seen;
  context_.resize(static_cast<size_t>(tokens));
  FillWindow(context, padding, absl::MakeSpan(context_));
  is_context_kept_ = true;
  return {.batch = {.size = 1, .inputs = context_.data()},
          .tokens = tokens,
          .last = tokens - 1,
          .known = known};
}

template class CpuModel<float>;
template class CpuModel<double>;

}  // namespace ringmaster
