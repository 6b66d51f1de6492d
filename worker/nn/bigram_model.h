// The model `bigram`: predicts each token from the one before it alone. The
// smallest model of text, and the example of docs/models.md.
//
//   token ids [B,W] -> embedding [B,W,E] -> logits [B,W,vocabulary]
//     -> cross entropy
// Settings: vocabulary (256), window (64), embedding_dim (32).
#ifndef RINGMASTER_WORKER_NN_BIGRAM_MODEL_H_
#define RINGMASTER_WORKER_NN_BIGRAM_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "common/status/status_macros.h"
#include "worker/nn/backend.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/context_window.h"
#include "worker/nn/embedding.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

struct BigramSettings {
  int64_t vocabulary = 256;
  int64_t window = 64;
  int64_t embedding_dim = 32;
};

template <typename Backend>
class Bigram final : public Backend {
 public:
  Bigram(const typename Backend::Parts& parts, const BigramSettings& settings)
      : Backend(parts),
        width_(settings.embedding_dim),
        input_{.shape = {.tokens = settings.window, .targets = settings.window},
               .vocabulary = settings.vocabulary},
        specs_{{"output.weight",
                {settings.vocabulary, width_},
                Initializer::Normal(0.02)},
               {"embedding.weight",
                {settings.vocabulary, width_},
                Initializer::Normal(1)}} {}

  static absl::StatusOr<BigramSettings> ReadSettings(
      const ModelConfig& config) {
    SettingsReader reader(config);
    BigramSettings settings;
    settings.vocabulary =
        reader.Int("vocabulary", settings.vocabulary, {1, 1 << 20});
    settings.window = reader.Int("window", settings.window, {1, 65536});
    settings.embedding_dim =
        reader.Int("embedding_dim", settings.embedding_dim, {1, 4096});
    RETURN_IF_ERROR(reader.Finish());
    return settings;
  }

  absl::Span<const TensorSpec> specs() const override { return specs_; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    // Forward, and the gradients of x and of the weight: two operations each.
    return 6.0 * static_cast<double>(input_.shape.tokens) *
           static_cast<double>(input_.vocabulary * width_);
  }

  absl::StatusOr<absl::Span<const typename Backend::Parameter>> NextTokenLogits(
      absl::Span<const int32_t> context) override {
    const auto placed =
        Backend::PlaceContext(context, WindowPadding::kAfter, /*window=*/1);
    EmbeddingForward<T>(compute(), {1, input_.vocabulary, width_},
                        placed.batch.inputs + placed.last,
                        parameter(kEmbedding), x_);
    LinearForward<T>(compute(), {1, width_, input_.vocabulary}, x_,
                     parameter(kOutput), /*bias=*/nullptr, head_.logits);
    return Backend::FetchLogits(head_.logits, input_.vocabulary);
  }

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override {
    const HeadShape head = HeadShapeOf(max_batch());
    x_ = cutter.Take<T>(head.rows * width_);
    dx_ = cutter.Take<T>(head.rows * width_);
    embedding_scratch_ =
        cutter.Take<int32_t>(EmbeddingScratchElems(compute(), head.rows));
    head_ = TakeClassifierScratch<T>(compute(), head, cutter);
  }

  const char* kind() const override { return "bigram"; }

  void Train(const PlacedBatch& batch, const PassOptions& options,
             GradientObserver& observer, PassSums* sums) override {
    Forward(batch);
    ClassifierTrain<T>(compute(), HeadShapeOf(batch.size), batch.scale,
                       options.write, x_, parameter(kOutput),
                       /*bias=*/nullptr, batch.targets, head_, dx_,
                       gradient(kOutput), /*dbias=*/nullptr, &sums->loss_sum);
    observer.OnForwardDone();
    observer.OnTensorDone(kOutput);
    EmbeddingBackward<T>(compute(), EmbeddingShapeOf(batch.size), options.write,
                         batch.inputs, dx_, embedding_scratch_,
                         gradient(kEmbedding));
    observer.OnTensorDone(kEmbedding);
  }

  void Evaluate(const PlacedBatch& batch, PassSums* sums) override {
    Forward(batch);
    ClassifierPredict<T>(compute(), HeadShapeOf(batch.size), x_,
                         parameter(kOutput), /*bias=*/nullptr, batch.targets,
                         head_, &sums->predicted_loss, &sums->correct);
  }

 private:
  using T = typename Backend::Element;
  using Backend::compute;
  using Backend::gradient;
  using Backend::max_batch;
  using Backend::parameter;

  // Tensor indices, in the order in which backward finishes them.
  enum : int { kOutput, kEmbedding };

  HeadShape HeadShapeOf(int64_t size) const {
    return {size * input_.shape.tokens, width_, input_.vocabulary};
  }
  EmbeddingShape EmbeddingShapeOf(int64_t size) const {
    return {size * input_.shape.tokens, input_.vocabulary, width_};
  }
  void Forward(const PlacedBatch& batch) {
    EmbeddingForward<T>(compute(), EmbeddingShapeOf(batch.size), batch.inputs,
                        parameter(kEmbedding), x_);
  }

  const int64_t width_;
  const ModelInput input_;
  const std::vector<TensorSpec> specs_;

  T* x_ = nullptr;   // [B*W,E]: embeddings
  T* dx_ = nullptr;  // [B*W,E]: their gradient
  int32_t* embedding_scratch_ = nullptr;
  typename Backend::ClassifierScratch head_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BIGRAM_MODEL_H_
