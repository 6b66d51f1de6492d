#include "worker/nn/bigram.h"

#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/embedding.h"
#include "worker/nn/linear.h"

namespace ringmaster {
namespace {

template <typename T>
class Bigram final : public Model<T> {
 public:
  Bigram(const Compute& compute, int64_t max_batch, int64_t vocabulary,
         int64_t window, int64_t width)
      : compute_(compute),
        max_batch_(max_batch),
        width_(width),
        input_{.shape = {.tokens = window, .targets = window},
               .vocabulary = vocabulary},
        specs_{
            {"output.weight", {vocabulary, width}, Initializer::Normal(0.02)},
            {"embedding.weight", {vocabulary, width}, Initializer::Normal(1)}} {
  }

  absl::Status PlanBuffers() {
    return arena_.Plan([this](BufferCutter<T>& cutter) {
      const HeadShape head = HeadShapeOf(max_batch_);
      x_ = cutter.Take(head.rows * width_);
      dx_ = cutter.Take(head.rows * width_);
      logits_ = cutter.Take(ClassifierChunkRows(head) * head.classes);
    });
  }

  absl::Span<const TensorSpec> specs() const override { return specs_; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return arena_.size_bytes(); }
  double flops_per_sample() const override {
    // Forward, and the gradients of x and of the weight: two operations each.
    return 6.0 * static_cast<double>(input_.shape.tokens) *
           static_cast<double>(input_.vocabulary * width_);
  }

  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override {
    return bound_.Bind(specs_, plan, parameters, gradients, "bigram");
  }

  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override {
    Forward(batch);
    const double loss_sum = ClassifierTrain<T>(
        compute_, HeadShapeOf(batch.size()), options.scale, options.write, x_,
        bound_.parameter(kOutput), /*bias=*/nullptr, batch.targets().data(),
        logits_, dx_, bound_.gradient(kOutput), /*dbias=*/nullptr);
    observer.OnForwardDone();
    observer.OnTensorDone(kOutput);
    EmbeddingBackward<T>(compute_, EmbeddingShapeOf(batch.size()),
                         options.write, batch.inputs().data(), dx_,
                         bound_.gradient(kEmbedding));
    observer.OnTensorDone(kEmbedding);
    return loss_sum;
  }

  Prediction Predict(const Batch& batch) override {
    Forward(batch);
    const ClassifierResult result = ClassifierPredict<T>(
        compute_, HeadShapeOf(batch.size()), x_, bound_.parameter(kOutput),
        /*bias=*/nullptr, batch.targets().data(), logits_);
    return {result.loss_sum, result.correct};
  }

  absl::StatusOr<absl::Span<const T>> NextTokenLogits(
      absl::Span<const int32_t> context) override {
    RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
             "bigram: no context, no buffers or no parameters");
    EmbeddingForward<T>(compute_, {1, input_.vocabulary, width_},
                        &context.back(), bound_.parameter(kEmbedding), x_);
    LinearForward<T>(compute_, {1, width_, input_.vocabulary}, x_,
                     bound_.parameter(kOutput), /*bias=*/nullptr, logits_);
    return absl::Span<const T>(logits_, static_cast<size_t>(input_.vocabulary));
  }

 private:
  // Tensor indices, in the order in which backward finishes them.
  enum : int { kOutput, kEmbedding };

  HeadShape HeadShapeOf(int64_t size) const {
    return {size * input_.shape.tokens, width_, input_.vocabulary};
  }
  EmbeddingShape EmbeddingShapeOf(int64_t size) const {
    return {size * input_.shape.tokens, input_.vocabulary, width_};
  }
  void Forward(const Batch& batch) {
    bound_.CheckBatch(batch, input_, max_batch_);
    EmbeddingForward<T>(compute_, EmbeddingShapeOf(batch.size()),
                        batch.inputs().data(), bound_.parameter(kEmbedding),
                        x_);
  }

  const Compute compute_;
  const int64_t max_batch_;
  const int64_t width_;
  const ModelInput input_;
  const std::vector<TensorSpec> specs_;

  BufferArena<T> arena_;
  T* x_ = nullptr;       // [B*W,E]: embeddings
  T* dx_ = nullptr;      // [B*W,E]: their gradient
  T* logits_ = nullptr;  // of the rows that the classifier takes at once

  BoundTensors<T> bound_;
};

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Model<T>>> CreateBigram(
    const ModelConfig& config, const Compute& compute, int64_t max_batch) {
  SettingsReader settings(config);
  const int64_t vocabulary = settings.Int("vocabulary", 256, {1, 1 << 20});
  const int64_t window = settings.Int("window", 64, {1, 65536});
  const int64_t width = settings.Int("embedding_dim", 32, {1, 4096});
  RETURN_IF_ERROR(settings.Finish());
  auto model = std::make_unique<Bigram<T>>(compute, max_batch, vocabulary,
                                           window, width);
  RETURN_IF_ERROR(model->PlanBuffers());
  return model;
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateBigram<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateBigram<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
