#include "worker/train/state/emulated_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {
namespace {

// A halt must be answered soon.
constexpr absl::Duration kLongestWait = absl::Milliseconds(50);

class EmulatedModel final : public Model<float> {
 public:
  EmulatedModel(std::unique_ptr<Model<float>> model, EmulationConfig config,
                Clock& clock)
      : model_(std::move(model)), config_(std::move(config)), clock_(clock) {}

  absl::Span<const TensorSpec> specs() const override {
    return model_->specs();
  }
  const ModelInput& input() const override { return model_->input(); }
  int64_t max_batch() const override { return model_->max_batch(); }
  int64_t buffer_bytes() const override { return model_->buffer_bytes(); }
  double flops_per_sample() const override { return 0; }
  std::string HuggingFaceConfig() const override {
    return model_->HuggingFaceConfig();
  }

  absl::Status Bind(const Plan& plan, absl::Span<const float> parameters,
                    absl::Span<float> gradients) override {
    RETURN_IF_ERROR(model_->Bind(plan, parameters, gradients));
    if (gradients.data() != gradients_)
      std::fill(gradients.begin(), gradients.end(), 0.0F);
    gradients_ = gradients.data();
    SettleMoments(plan);
    return absl::OkStatus();
  }

  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override {
    const auto samples = static_cast<double>(batch.size());
    const MonotonicTime forward_done = clock_.Now() + samples * config_.forward;
    WaitUntil(forward_done, options.cancel);
    observer.OnForwardDone();
    const absl::Duration backward = samples * config_.backward;
    for (size_t tensor = 0; tensor < ready_.size(); ++tensor) {
      WaitUntil(forward_done + ready_[tensor] * backward, options.cancel);
      observer.OnTensorDone(static_cast<int>(tensor));
    }
    WaitUntil(forward_done + backward, options.cancel);
    return 0;
  }

  Prediction Predict(const Batch& batch) override {
    return model_->Predict(batch);
  }
  absl::StatusOr<absl::Span<const float>> NextTokenLogits(
      absl::Span<const int32_t> context) override {
    return model_->NextTokenLogits(context);
  }
  void ForgetContext() override { model_->ForgetContext(); }

 private:
  // By tensor: the share of the backward pass after which it is told; that of
  // the bucket which it completes, or of the one before.
  void SettleMoments(const Plan& plan) {
    const auto buckets = static_cast<double>(plan.buckets().size());
    ready_.assign(model_->specs().size(), 0);
    size_t done = 0;
    double share = 0;
    for (size_t tensor = 0; tensor < ready_.size(); ++tensor) {
      done += plan.BucketsCompletedBy(static_cast<int>(tensor)).size();
      if (done > 0) {
        share = std::max(share, done <= config_.ready_permille.size()
                                    ? 1e-3 * config_.ready_permille[done - 1]
                                    : static_cast<double>(done) / buckets);
      }
      ready_[tensor] = std::min(share, 1.0);
    }
  }

  void WaitUntil(MonotonicTime moment, const CancelToken* cancel) {
    MutexLock lock(mutex_);
    for (MonotonicTime now = clock_.Now(); now < moment; now = clock_.Now()) {
      if (cancel != nullptr && cancel->is_cancelled()) return;
      // Never notified: the clock alone ends it.
      (void)never_.WaitUntil(mutex_, clock_,
                             std::min(moment, now + kLongestWait));
    }
  }

  const std::unique_ptr<Model<float>> model_;
  const EmulationConfig config_;
  Clock& clock_;
  const float* gradients_ = nullptr;
  std::vector<double> ready_;
  Mutex mutex_;
  CondVar never_;
};

}  // namespace

std::unique_ptr<Model<float>> EmulateCompute(
    std::unique_ptr<Model<float>> model, EmulationConfig config, Clock& clock) {
  return std::make_unique<EmulatedModel>(std::move(model), std::move(config),
                                         clock);
}

}  // namespace ringmaster
