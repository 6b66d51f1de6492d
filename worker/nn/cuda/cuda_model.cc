#include "worker/nn/cuda/cuda_model.h"

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "worker/nn/cuda/cast.h"

namespace ringmaster::cuda {

template <typename T>
class CudaModel<T>::MarkTurn final : public GradientObserver {
 public:
  MarkTurn(CudaStream& stream, PassMarks* marks, GradientObserver& next)
      : stream_(stream), marks_(marks), next_(next) {}

  void OnForwardDone() override {
    if (marks_ != nullptr) stream_.Record(*marks_->turn);
    next_.OnForwardDone();
  }
  void OnTensorDone(int tensor_index) override {
    next_.OnTensorDone(tensor_index);
  }

 private:
  CudaStream& stream_;
  PassMarks* const marks_;
  GradientObserver& next_;
};

template <typename T>
absl::Status CudaModel<T>::PlanBuffers() {
  RETURN_IF_ERROR(device_.MakeCurrent());
  RETURN_IF_ERROR(
      buffers_.Plan(device_.allocator(), [this](BufferCutter& cutter) {
        sums_ = cutter.Take<PassSums>(1);
        logits_ = cutter.Take<float>(input().vocabulary);
        if (input().sample_classes() > 0)
          outcomes_ = cutter.Take<ClassOutcome>(max_batch_);
        Cut(cutter);
      }));
  ASSIGN_OR_RETURN(host_sums_,
                   device_.pinned_allocator().Allocate(sizeof(PassSums)));
  ASSIGN_OR_RETURN(upload_, BatchUpload::Create(device_, stream(),
                                                input().shape, max_batch_));
  if (input().sample_classes() > 0)
    host_outcomes_.resize(static_cast<size_t>(max_batch_));
  host_logits_.resize(static_cast<size_t>(input().vocabulary));
  context_ = Batch(1, input().shape);
  FillConstants();
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaModel<T>::Bind(const Plan& plan,
                                absl::Span<const float> parameters,
                                absl::Span<float> gradients) {
  RETURN_IF_ERROR(bound_.Bind(specs(), plan, parameters, gradients, kind()));
  graphs_.Bind(plan);
  RETURN_IF_ERROR(MakeWorkingCopy(plan.total_elems()));
  parameters_ = parameters;
  if constexpr (std::is_same_v<T, float>) {
    working_parameters_ = parameters.data();
  } else {
    working_parameters_ = static_cast<const T*>(working_copy_.data());
  }
  begins_.clear();
  for (const PlannedTensor& tensor : plan.tensors())
    begins_.push_back(tensor.range.begin);
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaModel<T>::MakeWorkingCopy(int64_t elems) {
  const int64_t bytes = elems * static_cast<int64_t>(sizeof(T));
  if (std::is_same_v<T, float> || working_copy_.size_bytes() == bytes)
    return absl::OkStatus();
  RETURN_IF_ERROR(device_.MakeCurrent());
  ASSIGN_OR_RETURN(working_copy_, device_.allocator().Allocate(bytes));
  return absl::OkStatus();
}

template <typename T>
void CudaModel<T>::RefreshParameters() {
  if constexpr (!std::is_same_v<T, float>) {
    CastFromFloat<T>(stream(), static_cast<int64_t>(parameters_.size()),
                     parameters_.data(), static_cast<T*>(working_copy_.data()));
  }
}

template <typename T>
typename CudaModel<T>::PassMarks* CudaModel<T>::NextMarks() {
  if (passes_ < marks_.size()) return &marks_[passes_++];
  PassMarks marks;
  for (std::unique_ptr<CudaEvent>* mark :
       {&marks.begin, &marks.turn, &marks.end}) {
    absl::StatusOr<std::unique_ptr<CudaEvent>> event =
        CudaEvent::Create(CudaEvent::Timing::kOn);
    if (!event.ok()) {
      stream().Note(event.status());
      return nullptr;
    }
    *mark = *std::move(event);
  }
  marks_.push_back(std::move(marks));
  return &marks_[passes_++];
}

template <typename T>
double CudaModel<T>::ForwardBackward(const Batch& batch,
                                     const TrainOptions& options,
                                     GradientObserver& observer) {
  bound_.CheckBatch(batch, input(), max_batch_);
  if (options.write == Write::kSet) {
    // A step begins; of one that was given up, nothing counts.
    passes_ = 0;
    stream().FillZero(&sums_->loss_sum, sizeof(sums_->loss_sum));
  }
  PassMarks* const marks = NextMarks();
  if (marks != nullptr) stream().Record(*marks->begin);
  const DeviceBatch placed =
      upload_->Upload(batch, {options.dropout_key,
                              {static_cast<float>(options.scale),
                               static_cast<float>(options.label_smoothing)}});
  MarkTurn mark(stream(), marks, observer);
  graphs_.Run({batch.size(), options.write}, options.cancel, mark,
              [&](const CancelToken* cancel, GradientObserver& observed) {
                // They stay as they are within a step.
                if (options.write == Write::kSet) RefreshParameters();
                Train(placed, {options.write, cancel}, observed, sums_);
              });
  if (marks != nullptr) stream().Record(*marks->end);
  // It has not passed all its marks, and counts for nothing.
  if (options.cancel != nullptr && options.cancel->is_cancelled()) passes_ = 0;
  return 0;
}

template <typename T>
absl::StatusOr<DeviceReport> CudaModel<T>::ReadMarks() {
  DeviceReport report;
  for (size_t i = 0; i < std::exchange(passes_, 0); ++i) {
    const PassMarks& marks = marks_[i];
    ASSIGN_OR_RETURN(const absl::Duration forward,
                     CudaEvent::Between(*marks.begin, *marks.turn));
    ASSIGN_OR_RETURN(const absl::Duration backward,
                     CudaEvent::Between(*marks.turn, *marks.end));
    report.forward += forward;
    report.backward += backward;
  }
  return report;
}

template <typename T>
absl::StatusOr<DeviceReport> CudaModel<T>::AwaitDevice() {
  if (passes_ == 0) {
    RETURN_IF_ERROR(stream().Synchronize());
    return DeviceReport();
  }
  auto* const host = static_cast<PassSums*>(host_sums_.data());
  stream().CopyToHost(host, sums_, sizeof(PassSums));
  RETURN_IF_ERROR(stream().Synchronize());
  ASSIGN_OR_RETURN(DeviceReport report, ReadMarks());
  report.loss_sum = host->loss_sum;
  return report;
}

template <typename T>
Prediction CudaModel<T>::Predict(const Batch& batch) {
  bound_.CheckBatch(batch, input(), max_batch_);
  passes_ = 0;  // of a step that was given up
  stream().FillZero(&sums_->predicted_loss,
                    sizeof(PassSums) - offsetof(PassSums, predicted_loss));
  RefreshParameters();
  has_outcomes_ = false;
  Evaluate(upload_->Upload(batch), sums_);
  auto* const host = static_cast<PassSums*>(host_sums_.data());
  stream().CopyToHost(host, sums_, sizeof(PassSums));
  if (has_outcomes_) {
    stream().CopyToHost(
        host_outcomes_.data(), outcomes_,
        batch.size() * static_cast<int64_t>(sizeof(ClassOutcome)));
  }
  // The error is for AwaitDevice to tell.
  if (!stream().Synchronize().ok())
    return {.loss_sum = std::numeric_limits<double>::quiet_NaN()};
  Prediction prediction = {.loss_sum = host->predicted_loss,
                           .correct = host->correct};
  if (has_outcomes_) {
    prediction.outcomes = {host_outcomes_.data(),
                           static_cast<size_t>(batch.size())};
  }
  return prediction;
}

template <typename T>
PlacedContext<DeviceBatch> CudaModel<T>::PlaceContext(
    absl::Span<const int32_t> context, WindowPadding padding,
    int64_t /*window*/) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
           "a model that continues text has some, buffers and parameters");
  context_.Resize(1);
  const auto seen = static_cast<int64_t>(
      FillWindow(context, padding, context_.mutable_inputs()));
  RefreshParameters();
  const int64_t tokens = input().shape.tokens;
  return {.batch = upload_->Upload(context_),
          .tokens = tokens,
          .last = (padding == WindowPadding::kBefore ? tokens : seen) - 1};
}

template <typename T>
absl::StatusOr<absl::Span<const float>> CudaModel<T>::FetchLogits(
    const T* logits, int64_t count) {
  CastToFloat<T>(stream(), count, logits, logits_);
  stream().CopyToHost(host_logits_.data(), logits_,
                      count * static_cast<int64_t>(sizeof(float)));
  RETURN_IF_ERROR(stream().Synchronize());
  return absl::Span<const float>(host_logits_.data(),
                                 static_cast<size_t>(count));
}

template class CudaModel<float>;
template class CudaModel<__nv_bfloat16>;
template class CudaModel<__half>;

}  // namespace ringmaster::cuda
