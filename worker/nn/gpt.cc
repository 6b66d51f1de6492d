#include "worker/nn/gpt.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/plan/plan.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "worker/nn/attention.h"
#include "worker/nn/classifier.h"
#include "worker/nn/dropout.h"
#include "worker/nn/gelu.h"
#include "worker/nn/gpt_buffers.h"
#include "worker/nn/gpt_layout.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster {
namespace {

// The shape and options of one run through the model.
struct Pass {
  GptShapes shape;
  double dropout_rate = 0;
  uint64_t dropout_key = 0;
  const int64_t* sample_ids = nullptr;
  const CancelToken* cancel = nullptr;

  bool is_cancelled() const {
    return cancel != nullptr && cancel->is_cancelled();
  }
};

template <typename T>
class Gpt final : public Model<T> {
 public:
  static absl::StatusOr<std::unique_ptr<Model<T>>> Create(
      const ModelConfig& config, const Compute& compute, int64_t max_batch) {
    ASSIGN_OR_RETURN(const GptSettings settings, ReadGptSettings(config));
    ASSIGN_OR_RETURN(auto buffers, GptBuffers<T>::Create(settings, max_batch));
    return std::make_unique<Gpt>(settings, compute, max_batch,
                                 std::move(buffers));
  }

  Gpt(const GptSettings& settings, const Compute& compute, int64_t max_batch,
      std::unique_ptr<GptBuffers<T>> buffers)
      : settings_(settings),
        compute_(compute),
        max_batch_(max_batch),
        input_(GptInput(settings)),
        tensors_(LayOutGpt(settings)),
        buffers_(std::move(buffers)) {}

  absl::Span<const TensorSpec> specs() const override { return tensors_.specs; }
  const ModelInput& input() const override { return input_; }
  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return buffers_->size_bytes(); }
  double flops_per_sample() const override {
    return GptFlopsPerSample(settings_);
  }
  std::string HuggingFaceConfig() const override {
    return GptHuggingFaceConfig(settings_);
  }
  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override {
    return bound_.Bind(tensors_.specs, plan, parameters, gradients, "gpt");
  }
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) override;
  Prediction Predict(const Batch& batch) override;
  absl::StatusOr<absl::Span<const T>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 private:
  GptShapes ShapesOf(int64_t samples) const {
    return {settings_, samples, settings_.sample_tokens};
  }
  Dropout DropoutAt(const Pass& pass, uint64_t site,
                    int64_t elems_per_sample) const;
  // The dropout of values that are added to the residual stream.
  Dropout ResidualDropout(const Pass& pass, uint64_t site) const {
    return DropoutAt(pass, site, pass.shape.residual_elems());
  }
  Dropout AttentionDropout(const Pass& pass, size_t block) const {
    return DropoutAt(pass, GptDropoutSite::Attention(block),
                     pass.shape.attention_elems());
  }

  // Fills the final norm's output.
  void Forward(const Pass& pass, const int32_t* ids);
  // norm.sum = x + drop(delta), norm.y = normalized; `site` is the dropout's.
  void Normalize(const Pass& pass, WeightAndBias tensors,
                 const GptNormBuffers<T>& norm, const T* x, const T* delta,
                 uint64_t site);
  void ForwardAttention(const Pass& pass, size_t block);
  void ForwardMlp(const Pass& pass, size_t block);

  // One backward pass; the residual stream's gradient goes through
  // buffers_->dresidual.
  struct Backward {
    const Pass& pass;
    Write write;
    GradientObserver& observer;
  };
  void BackwardBlocks(const Backward& run);
  void BackwardAttention(const Backward& run, size_t block);
  void BackwardMlp(const Backward& run, size_t block);
  void BackwardEmbedding(const Backward& run, const int32_t* ids);
  // dresidual += the gradient of norm.sum, from dnarrow, that of norm.y.
  void BackwardNorm(const Backward& run, WeightAndBias tensors,
                    const GptNormBuffers<T>& norm);
  // Gradients of a linear operator's tensors.
  void BackwardTensors(const Backward& run, LinearShape shape,
                       WeightAndBias tensors, const T* dy, const T* x);
  // The gradient of what was added to the residual stream at `site`.
  const T* DroppedResidual(const Pass& pass, uint64_t site);

  const GptSettings settings_;
  const Compute compute_;
  const int64_t max_batch_;
  const ModelInput input_;
  const GptTensors tensors_;

  const std::unique_ptr<GptBuffers<T>> buffers_;
  BoundTensors<T> bound_;
};

template <typename T>
Dropout Gpt<T>::DropoutAt(const Pass& pass, uint64_t site,
                          int64_t elems_per_sample) const {
  return {.rate = pass.dropout_rate,
          .key = CounterRandom(pass.dropout_key, site),
          .sample_ids = pass.sample_ids,
          .elems_per_sample = elems_per_sample};
}

template <typename T>
void Gpt<T>::Normalize(const Pass& pass, WeightAndBias tensors,
                       const GptNormBuffers<T>& norm, const T* x,
                       const T* delta, uint64_t site) {
  ResidualLayerNormForward<T>(
      compute_, pass.shape.Rows(), x, delta, ResidualDropout(pass, site),
      norm.sum, bound_.parameter(tensors.weight),
      bound_.parameter(tensors.bias), kGptLayerNormEpsilon, norm.y, norm.mean,
      norm.rstd);
}

template <typename T>
void Gpt<T>::Forward(const Pass& pass, const int32_t* ids) {
  T* const embedded = buffers_->blocks[0].attention_norm.sum;
  TokenEmbeddingForward<T>(compute_, pass.shape.Embedding(), ids,
                           bound_.parameter(tensors_.tokens),
                           bound_.parameter(tensors_.positions), embedded);
  if (pass.dropout_rate != 0) {
    ApplyDropout<T>(compute_, ResidualDropout(pass, GptDropoutSite::kEmbedding),
                    pass.shape.samples, embedded, embedded);
  }
  // A block's output is added to the residual stream on the way into the next
  // norm.
  const T* residual = embedded;
  const T* delta = nullptr;
  uint64_t site = GptDropoutSite::kEmbedding;
  for (size_t i = 0; i < buffers_->blocks.size(); ++i) {
    if (pass.is_cancelled()) return;
    Normalize(pass, tensors_.blocks[i].attention_norm,
              buffers_->blocks[i].attention_norm, residual, delta, site);
    ForwardAttention(pass, i);
    Normalize(pass, tensors_.blocks[i].mlp_norm, buffers_->blocks[i].mlp_norm,
              buffers_->blocks[i].attention_norm.sum, buffers_->branch,
              GptDropoutSite::AttentionOutput(i));
    ForwardMlp(pass, i);
    residual = buffers_->blocks[i].mlp_norm.sum;
    delta = buffers_->branch;
    site = GptDropoutSite::MlpOutput(i);
  }
  Normalize(pass, tensors_.final_norm, buffers_->final_norm, residual, delta,
            site);
}

template <typename T>
void Gpt<T>::ForwardAttention(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const GptBlockBuffers<T>& buffers = buffers_->blocks[block];
  const int64_t width = settings_.width;
  LinearForward<T>(compute_, pass.shape.Linear(width, 3 * width),
                   buffers.attention_norm.y,
                   bound_.parameter(tensors.attention_input.weight),
                   bound_.parameter(tensors.attention_input.bias), buffers.qkv);
  AttentionForward<T>(compute_, pass.shape.Attention(),
                      AttentionDropout(pass, block), buffers.qkv,
                      buffers.attention, buffers.log_sum_exp);
  LinearForward<T>(compute_, pass.shape.Linear(width, width), buffers.attention,
                   bound_.parameter(tensors.attention_output.weight),
                   bound_.parameter(tensors.attention_output.bias),
                   buffers_->branch);
}

template <typename T>
void Gpt<T>::ForwardMlp(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const GptBlockBuffers<T>& buffers = buffers_->blocks[block];
  const int64_t width = settings_.width;
  const int64_t hidden = settings_.hidden();
  LinearGeluForward<T>(compute_, pass.shape.Linear(width, hidden),
                       buffers.mlp_norm.y,
                       bound_.parameter(tensors.mlp_input.weight),
                       bound_.parameter(tensors.mlp_input.bias), buffers.hidden,
                       buffers.activated);
  LinearForward<T>(compute_, pass.shape.Linear(hidden, width),
                   buffers.activated,
                   bound_.parameter(tensors.mlp_output.weight),
                   bound_.parameter(tensors.mlp_output.bias), buffers_->branch);
}

template <typename T>
double Gpt<T>::ForwardBackward(const Batch& batch, const TrainOptions& options,
                               GradientObserver& observer) {
  bound_.CheckBatch(batch, input_, max_batch_);
  const Pass pass = {.shape = ShapesOf(batch.size()),
                     .dropout_rate = settings_.dropout,
                     .dropout_key = options.dropout_key,
                     .sample_ids = batch.sample_ids().data(),
                     .cancel = options.cancel};
  Forward(pass, batch.inputs().data());
  if (pass.is_cancelled()) return 0;
  const Backward run = {pass, options.write, observer};
  const double loss_sum = ClassifierTrain<T>(
      compute_, pass.shape.Head(), options.scale, options.write,
      buffers_->final_norm.y, bound_.parameter(tensors_.tokens), nullptr,
      batch.targets().data(), buffers_->logits, buffers_->dnarrow,
      bound_.gradient(tensors_.tokens), nullptr);
  observer.OnForwardDone();
  std::fill_n(buffers_->dresidual, pass.shape.rows() * settings_.width, T{0});
  BackwardNorm(run, tensors_.final_norm, buffers_->final_norm);
  BackwardBlocks(run);
  if (pass.is_cancelled()) return 0;
  BackwardEmbedding(run, batch.inputs().data());
  return loss_sum;
}

template <typename T>
void Gpt<T>::BackwardBlocks(const Backward& run) {
  for (size_t i = buffers_->blocks.size(); i-- > 0;) {
    if (run.pass.is_cancelled()) return;
    BackwardMlp(run, i);
    BackwardAttention(run, i);
  }
}

template <typename T>
void Gpt<T>::BackwardMlp(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const GptBlockBuffers<T>& buffers = buffers_->blocks[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.hidden(), settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, settings_.hidden());
  const T* const dbranch =
      DroppedResidual(run.pass, GptDropoutSite::MlpOutput(block));
  BackwardTensors(run, output, tensors.mlp_output, dbranch, buffers.activated);
  LinearBackwardInput<T>(compute_, output, dbranch,
                         bound_.parameter(tensors.mlp_output.weight),
                         buffers_->dwide);
  GeluBackward<T>(compute_, output.batch * output.in, buffers.hidden,
                  buffers_->dwide, buffers_->dwide);
  BackwardTensors(run, input, tensors.mlp_input, buffers_->dwide,
                  buffers.mlp_norm.y);
  LinearBackwardInput<T>(compute_, input, buffers_->dwide,
                         bound_.parameter(tensors.mlp_input.weight),
                         buffers_->dnarrow);
  BackwardNorm(run, tensors.mlp_norm, buffers.mlp_norm);
}

template <typename T>
void Gpt<T>::BackwardAttention(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const GptBlockBuffers<T>& buffers = buffers_->blocks[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.width, settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, 3 * settings_.width);
  const T* const dbranch =
      DroppedResidual(run.pass, GptDropoutSite::AttentionOutput(block));
  BackwardTensors(run, output, tensors.attention_output, dbranch,
                  buffers.attention);
  LinearBackwardInput<T>(compute_, output, dbranch,
                         bound_.parameter(tensors.attention_output.weight),
                         buffers_->dnarrow);
  AttentionBackward<T>(compute_, run.pass.shape.Attention(),
                       AttentionDropout(run.pass, block), buffers_->dnarrow,
                       buffers.qkv, buffers.attention, buffers.log_sum_exp,
                       buffers_->dwide);
  BackwardTensors(run, input, tensors.attention_input, buffers_->dwide,
                  buffers.attention_norm.y);
  LinearBackwardInput<T>(compute_, input, buffers_->dwide,
                         bound_.parameter(tensors.attention_input.weight),
                         buffers_->dnarrow);
  BackwardNorm(run, tensors.attention_norm, buffers.attention_norm);
}

template <typename T>
void Gpt<T>::BackwardEmbedding(const Backward& run, const int32_t* ids) {
  const TokenEmbeddingShape shape = run.pass.shape.Embedding();
  const T* const dembedded =
      DroppedResidual(run.pass, GptDropoutSite::kEmbedding);
  TokenEmbeddingBackwardPositions<T>(compute_, shape, run.write, dembedded,
                                     bound_.gradient(tensors_.positions));
  if (run.write == Write::kSet) {
    // Positions that no sample has.
    const int64_t seen = run.pass.shape.tokens * settings_.width;
    std::fill_n(bound_.gradient(tensors_.positions) + seen,
                settings_.window * settings_.width - seen, T{0});
  }
  run.observer.OnTensorDone(tensors_.positions);
  // The head has written its part already.
  TokenEmbeddingBackwardTokens<T>(compute_, shape, Write::kAdd, ids, dembedded,
                                  bound_.gradient(tensors_.tokens));
  run.observer.OnTensorDone(tensors_.tokens);
}

template <typename T>
void Gpt<T>::BackwardNorm(const Backward& run, WeightAndBias tensors,
                          const GptNormBuffers<T>& norm) {
  LayerNormBackward<T>(
      compute_, run.pass.shape.Rows(), run.write, buffers_->dnarrow, norm.sum,
      bound_.parameter(tensors.weight), norm.mean, norm.rstd,
      buffers_->norm_scratch, buffers_->dresidual,
      bound_.gradient(tensors.weight), bound_.gradient(tensors.bias));
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename T>
void Gpt<T>::BackwardTensors(const Backward& run, LinearShape shape,
                             WeightAndBias tensors, const T* dy, const T* x) {
  // Before the gradient of the input: their reduction can then run meanwhile.
  LinearBackwardWeight<T>(compute_, shape, run.write, dy, x,
                          bound_.gradient(tensors.weight));
  run.observer.OnTensorDone(tensors.weight);
  LinearBackwardBias<T>(compute_, shape, run.write, dy,
                        bound_.gradient(tensors.bias));
  run.observer.OnTensorDone(tensors.bias);
}

template <typename T>
const T* Gpt<T>::DroppedResidual(const Pass& pass, uint64_t site) {
  if (pass.dropout_rate == 0) return buffers_->dresidual;
  ApplyDropout<T>(compute_, ResidualDropout(pass, site), pass.shape.samples,
                  buffers_->dresidual, buffers_->branch);
  return buffers_->branch;
}

template <typename T>
Prediction Gpt<T>::Predict(const Batch& batch) {
  bound_.CheckBatch(batch, input_, max_batch_);
  const Pass pass = {.shape = ShapesOf(batch.size())};
  Forward(pass, batch.inputs().data());
  const ClassifierResult result =
      ClassifierPredict<T>(compute_, pass.shape.Head(), buffers_->final_norm.y,
                           bound_.parameter(tensors_.tokens), nullptr,
                           batch.targets().data(), buffers_->logits);
  return {result.loss_sum, result.correct};
}

template <typename T>
absl::StatusOr<absl::Span<const T>> Gpt<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  RM_CHECK(!context.empty() && max_batch_ >= 1 && bound_.is_bound(),
           "gpt: no context, no buffers or no parameters");
  const int64_t tokens =
      std::min(static_cast<int64_t>(context.size()), settings_.window);
  const Pass pass = {.shape = {settings_, 1, tokens}};
  Forward(pass, context.data() + context.size() - tokens);
  LinearForward<T>(
      compute_,
      {1, settings_.width, settings_.vocabulary, WeightLayout::kOutIn},
      buffers_->final_norm.y + (tokens - 1) * settings_.width,
      bound_.parameter(tensors_.tokens), nullptr, buffers_->logits);
  return absl::Span<const T>(buffers_->logits,
                             static_cast<size_t>(settings_.vocabulary));
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Model<T>>> CreateGpt(const ModelConfig& config,
                                                    const Compute& compute,
                                                    int64_t max_batch) {
  return Gpt<T>::Create(config, compute, max_batch);
}

template absl::StatusOr<std::unique_ptr<Model<float>>> CreateGpt<float>(
    const ModelConfig&, const Compute&, int64_t);
template absl::StatusOr<std::unique_ptr<Model<double>>> CreateGpt<double>(
    const ModelConfig&, const Compute&, int64_t);

}  // namespace ringmaster
