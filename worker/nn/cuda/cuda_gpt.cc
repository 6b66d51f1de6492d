#include "worker/nn/cuda/cuda_gpt.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/attention.h"
#include "worker/nn/cuda/classifier.h"
#include "worker/nn/cuda/classifier_scratch.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/cuda/embedding.h"
#include "worker/nn/cuda/layer_norm.h"
#include "worker/nn/cuda/linear.h"
#include "worker/nn/cuda/self_attention.h"
#include "worker/nn/gpt_layout.h"

namespace ringmaster::cuda {
namespace {

// Shapes are for B samples, W tokens, C = width, H = heads, V = vocabulary.

// A layer norm's input and output, and what its backward pass needs.
template <typename T>
struct NormBuffers {
  T* sum = nullptr;       // [B*W,C]: the residual stream
  T* y = nullptr;         // [B*W,C]
  float* mean = nullptr;  // [B*W]
  float* rstd = nullptr;  // [B*W]
};

// The values that a block's forward pass keeps for its backward pass.
template <typename T>
struct BlockBuffers {
  NormBuffers<T> attention_norm;
  T* qkv = nullptr;              // [B*W,3C]
  float* log_sum_exp = nullptr;  // [B,H,W]
  T* attention = nullptr;        // [B*W,C]
  NormBuffers<T> mlp_norm;
  T* hidden = nullptr;     // [B*W,4C]: before the GELU
  T* activated = nullptr;  // [B*W,4C]: after it
};

// The shape and options of one run through the model.
struct Pass {
  GptShapes shape;
  double dropout_rate = 0;
  const uint64_t* dropout_key = nullptr;  // on the device
  const int64_t* sample_ids = nullptr;    // on the device
  const CancelToken* cancel = nullptr;

  bool is_cancelled() const {
    return cancel != nullptr && cancel->is_cancelled();
  }
};

template <typename T>
class CudaGpt final : public CudaModel<T> {
 public:
  CudaGpt(const CudaModelParts& parts, const GptSettings& settings)
      : CudaModel<T>(parts),
        settings_(settings),
        input_(GptInput(settings)),
        tensors_(LayOutGpt(settings)) {}

  absl::Span<const TensorSpec> specs() const override { return tensors_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return GptFlopsPerSample(settings_);
  }
  std::string HuggingFaceConfig() const override {
    return GptHuggingFaceConfig(settings_);
  }
  absl::StatusOr<absl::Span<const float>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 protected:
  void Cut(DeviceCutter& cutter) override;
  const char* kind() const override { return "gpt"; }
  void Train(const DeviceBatch& batch, const PassOptions& options,
             GradientObserver& observer) override;
  void Evaluate(const DeviceBatch& batch) override;

 private:
  using Base = CudaModel<T>;
  using Base::compute;
  using Base::gradient;
  using Base::max_batch;
  using Base::parameter;
  using Base::stream;
  using Base::sums;

  GptShapes ShapesOf(int64_t samples) const {
    return {settings_, samples, settings_.sample_tokens};
  }
  DeviceDropout DropoutAt(const Pass& pass, uint64_t site,
                          int64_t elems_per_sample) const {
    return {.rate = pass.dropout_rate,
            .pass_key = pass.dropout_key,
            .site = site,
            .sample_ids = pass.sample_ids,
            .elems_per_sample = elems_per_sample};
  }
  // The dropout of values that are added to the residual stream.
  DeviceDropout ResidualDropout(const Pass& pass, uint64_t site) const {
    return DropoutAt(pass, site, pass.shape.residual_elems());
  }
  DeviceDropout AttentionDropout(const Pass& pass, size_t block) const {
    return DropoutAt(pass, GptDropoutSite::Attention(block),
                     pass.shape.attention_elems());
  }
  Pass EvaluationOf(const DeviceBatch& batch) const {
    return {.shape = ShapesOf(batch.size)};
  }

  // Fills the final norm's output.
  void Forward(const Pass& pass, const int32_t* ids);
  // norm.sum = x + drop(delta), norm.y = normalized; `site` is the dropout's.
  void Normalize(const Pass& pass, WeightAndBias tensors,
                 const NormBuffers<T>& norm, const T* x, const T* delta,
                 uint64_t site);
  void ForwardAttention(const Pass& pass, size_t block);
  void ForwardMlp(const Pass& pass, size_t block);

  // One backward pass; the residual stream's gradient goes through dresidual_.
  struct Backward {
    const Pass& pass;
    Write write;
    GradientObserver& observer;
  };
  void BackwardAttention(const Backward& run, size_t block);
  void BackwardMlp(const Backward& run, size_t block);
  void BackwardEmbedding(const Backward& run, const int32_t* ids);
  // dresidual_ += the gradient of norm.sum, from dnarrow_, that of norm.y. Then
  // dresidual_ is that of what a branch has added to the residual stream before
  // the norm: `branch` is the linear operator at its end, null if there is
  // none.
  void BackwardNorm(const Backward& run, WeightAndBias tensors,
                    const NormBuffers<T>& norm, const WeightAndBias* branch);
  // Gradients of a linear operator's tensors.
  void BackwardTensors(const Backward& run, LinearShape shape,
                       WeightAndBias tensors, const T* dy, const T* x);
  // The same for the operator at a branch's end, for which BackwardNorm was
  // called.
  void BackwardBranchEnd(const Backward& run, LinearShape shape,
                         WeightAndBias tensors, const T* dy, const T* x);
  // The gradient of what was added to the residual stream at `site`.
  const T* DroppedResidual(const Pass& pass, uint64_t site);

  const GptSettings settings_;
  const ModelInput input_;
  const GptTensors tensors_;

  std::vector<BlockBuffers<T>> blocks_;  // in order of execution
  NormBuffers<T> final_norm_;
  // [B*W,C]: what is to be added to the residual stream; while going back, its
  // gradient, if there is dropout.
  T* branch_ = nullptr;
  // Gradients while going back.
  T* dresidual_ = nullptr;  // [B*W,C]: of the residual stream
  T* dnarrow_ = nullptr;    // [B*W,C]: of a norm's or the attention's output
  T* dwide_ = nullptr;      // [B*W,4C]: of `hidden`, or of `qkv`
  // Scratch.
  float* norm_scratch_ = nullptr;
  float* attention_scratch_ = nullptr;
  int32_t* embedding_scratch_ = nullptr;
  ClassifierScratch<T> head_;
};

template <typename T>
void CudaGpt<T>::Cut(DeviceCutter& cutter) {
  const GptShapes most = ShapesOf(max_batch());
  const int64_t rows = most.rows();
  const int64_t width = settings_.width;
  const auto take_norm = [&] {
    return NormBuffers<T>{
        .sum = cutter.Take<T>(rows * width),
        .y = cutter.Take<T>(rows * width),
        .mean = cutter.Take<float>(rows),
        .rstd = cutter.Take<float>(rows),
    };
  };
  blocks_.clear();
  for (int64_t i = 0; i < settings_.layers; ++i) {
    BlockBuffers<T>& block = blocks_.emplace_back();
    block.attention_norm = take_norm();
    block.qkv = cutter.Take<T>(3 * rows * width);
    block.log_sum_exp = cutter.Take<float>(rows * settings_.heads);
    block.attention = cutter.Take<T>(rows * width);
    block.mlp_norm = take_norm();
    block.hidden = cutter.Take<T>(rows * settings_.hidden());
    block.activated = cutter.Take<T>(rows * settings_.hidden());
  }
  final_norm_ = take_norm();
  branch_ = cutter.Take<T>(rows * width);
  dresidual_ = cutter.Take<T>(rows * width);
  dnarrow_ = cutter.Take<T>(rows * width);
  dwide_ = cutter.Take<T>(rows * settings_.hidden());
  norm_scratch_ =
      cutter.Take<float>(LayerNormBackwardScratchElems(most.Rows()));
  attention_scratch_ =
      cutter.Take<float>(AttentionScratchElems(most.Attention()));
  embedding_scratch_ =
      cutter.Take<int32_t>(EmbeddingBackwardScratchElems(rows));
  head_ = TakeClassifierScratch<T>(most.Head(), cutter);
}

template <typename T>
void CudaGpt<T>::Normalize(const Pass& pass, WeightAndBias tensors,
                           const NormBuffers<T>& norm, const T* x,
                           const T* delta, uint64_t site) {
  ResidualLayerNormForward<T>(
      stream(), pass.shape.Rows(), x, delta, ResidualDropout(pass, site),
      norm.sum, parameter(tensors.weight), parameter(tensors.bias),
      kGptLayerNormEpsilon, norm.y, norm.mean, norm.rstd);
}

template <typename T>
void CudaGpt<T>::Forward(const Pass& pass, const int32_t* ids) {
  T* const embedded = blocks_[0].attention_norm.sum;
  TokenEmbeddingForward<T>(stream(), pass.shape.Embedding(), ids,
                           parameter(tensors_.tokens),
                           parameter(tensors_.positions), embedded);
  if (pass.dropout_rate != 0) {
    ApplyDropout<T>(stream(), ResidualDropout(pass, GptDropoutSite::kEmbedding),
                    pass.shape.samples, embedded, embedded);
  }
  // A block's output is added to the residual stream on the way into the next
  // norm.
  const T* residual = embedded;
  const T* delta = nullptr;
  uint64_t site = GptDropoutSite::kEmbedding;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (pass.is_cancelled()) return;
    Normalize(pass, tensors_.blocks[i].attention_norm,
              blocks_[i].attention_norm, residual, delta, site);
    ForwardAttention(pass, i);
    Normalize(pass, tensors_.blocks[i].mlp_norm, blocks_[i].mlp_norm,
              blocks_[i].attention_norm.sum, branch_,
              GptDropoutSite::AttentionOutput(i));
    ForwardMlp(pass, i);
    residual = blocks_[i].mlp_norm.sum;
    delta = branch_;
    site = GptDropoutSite::MlpOutput(i);
  }
  Normalize(pass, tensors_.final_norm, final_norm_, residual, delta, site);
}

template <typename T>
void CudaGpt<T>::ForwardAttention(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers<T>& buffers = blocks_[block];
  const int64_t width = settings_.width;
  LinearForward<T>(compute(), pass.shape.Linear(width, 3 * width),
                   buffers.attention_norm.y,
                   parameter(tensors.attention_input.weight),
                   parameter(tensors.attention_input.bias), buffers.qkv);
  SelfAttentionForward<T>(compute(), pass.shape.Attention(),
                          AttentionDropout(pass, block), buffers.qkv,
                          buffers.attention, buffers.log_sum_exp);
  LinearForward<T>(compute(), pass.shape.Linear(width, width),
                   buffers.attention,
                   parameter(tensors.attention_output.weight),
                   parameter(tensors.attention_output.bias), branch_);
}

template <typename T>
void CudaGpt<T>::ForwardMlp(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers<T>& buffers = blocks_[block];
  const int64_t width = settings_.width;
  const int64_t hidden = settings_.hidden();
  LinearGeluForward<T>(compute(), pass.shape.Linear(width, hidden),
                       buffers.mlp_norm.y, parameter(tensors.mlp_input.weight),
                       parameter(tensors.mlp_input.bias), buffers.hidden,
                       buffers.activated);
  LinearForward<T>(compute(), pass.shape.Linear(hidden, width),
                   buffers.activated, parameter(tensors.mlp_output.weight),
                   parameter(tensors.mlp_output.bias), branch_);
}

template <typename T>
void CudaGpt<T>::Train(const DeviceBatch& batch, const PassOptions& options,
                       GradientObserver& observer) {
  const Pass pass = {.shape = ShapesOf(batch.size),
                     .dropout_rate = settings_.dropout,
                     .dropout_key = batch.dropout_key(),
                     .sample_ids = batch.sample_ids,
                     .cancel = options.cancel};
  Forward(pass, batch.inputs);
  if (pass.is_cancelled()) return;
  const Backward run = {pass, options.write, observer};
  ClassifierTrain<T>(compute(), pass.shape.Head(), batch.scale(), options.write,
                     final_norm_.y, parameter(tensors_.tokens), nullptr,
                     batch.targets, head_, dnarrow_, gradient(tensors_.tokens),
                     nullptr, &sums()->loss_sum);
  observer.OnForwardDone();
  stream().FillZero(dresidual_, pass.shape.rows() * settings_.width *
                                    static_cast<int64_t>(sizeof(T)));
  BackwardNorm(run, tensors_.final_norm, final_norm_,
               &tensors_.blocks.back().mlp_output);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (pass.is_cancelled()) return;
    BackwardMlp(run, i);
    BackwardAttention(run, i);
  }
  if (pass.is_cancelled()) return;
  BackwardEmbedding(run, batch.inputs);
}

template <typename T>
void CudaGpt<T>::BackwardMlp(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers<T>& buffers = blocks_[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.hidden(), settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, settings_.hidden());
  const T* const dbranch =
      DroppedResidual(run.pass, GptDropoutSite::MlpOutput(block));
  BackwardBranchEnd(run, output, tensors.mlp_output, dbranch,
                    buffers.activated);
  LinearGeluBackwardInput<T>(compute(), output, dbranch,
                             parameter(tensors.mlp_output.weight),
                             buffers.hidden, dwide_);
  BackwardTensors(run, input, tensors.mlp_input, dwide_, buffers.mlp_norm.y);
  LinearBackwardInput<T>(compute(), input, dwide_,
                         parameter(tensors.mlp_input.weight), dnarrow_);
  BackwardNorm(run, tensors.mlp_norm, buffers.mlp_norm,
               &tensors.attention_output);
}

template <typename T>
void CudaGpt<T>::BackwardAttention(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers<T>& buffers = blocks_[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.width, settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, 3 * settings_.width);
  const T* const dbranch =
      DroppedResidual(run.pass, GptDropoutSite::AttentionOutput(block));
  BackwardBranchEnd(run, output, tensors.attention_output, dbranch,
                    buffers.attention);
  LinearBackwardInput<T>(compute(), output, dbranch,
                         parameter(tensors.attention_output.weight), dnarrow_);
  SelfAttentionBackward<T>(compute(), run.pass.shape.Attention(),
                           AttentionDropout(run.pass, block), dnarrow_,
                           buffers.qkv, buffers.attention, buffers.log_sum_exp,
                           attention_scratch_, dwide_);
  BackwardTensors(run, input, tensors.attention_input, dwide_,
                  buffers.attention_norm.y);
  LinearBackwardInput<T>(compute(), input, dwide_,
                         parameter(tensors.attention_input.weight), dnarrow_);
  BackwardNorm(run, tensors.attention_norm, buffers.attention_norm,
               block == 0 ? nullptr : &tensors_.blocks[block - 1].mlp_output);
}

template <typename T>
void CudaGpt<T>::BackwardEmbedding(const Backward& run, const int32_t* ids) {
  const TokenEmbeddingShape shape = run.pass.shape.Embedding();
  const T* const dembedded =
      DroppedResidual(run.pass, GptDropoutSite::kEmbedding);
  TokenEmbeddingBackwardPositions<T>(stream(), shape, run.write, dembedded,
                                     gradient(tensors_.positions));
  if (run.write == Write::kSet) {
    // Positions that no sample has.
    const int64_t seen = run.pass.shape.tokens * settings_.width;
    stream().FillZero(gradient(tensors_.positions) + seen,
                      (settings_.window * settings_.width - seen) *
                          static_cast<int64_t>(sizeof(float)));
  }
  run.observer.OnTensorDone(tensors_.positions);
  // The head has written its part already.
  TokenEmbeddingBackwardTokens<T>(stream(), shape, Write::kAdd, ids, dembedded,
                                  embedding_scratch_,
                                  gradient(tensors_.tokens));
  run.observer.OnTensorDone(tensors_.tokens);
}

template <typename T>
void CudaGpt<T>::BackwardNorm(const Backward& run, WeightAndBias tensors,
                              const NormBuffers<T>& norm,
                              const WeightAndBias* branch) {
  float* const dbranch_bias = branch == nullptr || run.pass.dropout_rate != 0
                                  ? nullptr
                                  : gradient(branch->bias);
  LayerNormBackward<T>(stream(), run.pass.shape.Rows(), run.write, dnarrow_,
                       norm.sum, parameter(tensors.weight), norm.mean,
                       norm.rstd, norm_scratch_, dresidual_,
                       gradient(tensors.weight), gradient(tensors.bias),
                       dbranch_bias);
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename T>
void CudaGpt<T>::BackwardTensors(const Backward& run, LinearShape shape,
                                 WeightAndBias tensors, const T* dy,
                                 const T* x) {
  // Before the gradient of the input: their reduction can then run meanwhile.
  LinearBackwardParameters<T>(compute(), shape, run.write, dy, x,
                              gradient(tensors.weight), gradient(tensors.bias));
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename T>
void CudaGpt<T>::BackwardBranchEnd(const Backward& run, LinearShape shape,
                                   WeightAndBias tensors, const T* dy,
                                   const T* x) {
  // Dropout is between the norm and the bias.
  if (run.pass.dropout_rate != 0)
    return BackwardTensors(run, shape, tensors, dy, x);
  LinearBackwardWeight<T>(compute(), shape, run.write, dy, x,
                          gradient(tensors.weight));
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename T>
const T* CudaGpt<T>::DroppedResidual(const Pass& pass, uint64_t site) {
  if (pass.dropout_rate == 0) return dresidual_;
  ApplyDropout<T>(stream(), ResidualDropout(pass, site), pass.shape.samples,
                  dresidual_, branch_);
  return branch_;
}

template <typename T>
void CudaGpt<T>::Evaluate(const DeviceBatch& batch) {
  const Pass pass = EvaluationOf(batch);
  Forward(pass, batch.inputs);
  ClassifierPredict<T>(compute(), pass.shape.Head(), final_norm_.y,
                       parameter(tensors_.tokens), nullptr, batch.targets,
                       head_, &sums()->predicted_loss, &sums()->correct);
}

template <typename T>
absl::StatusOr<absl::Span<const float>> CudaGpt<T>::NextTokenLogits(
    absl::Span<const int32_t> context) {
  // The context does not see what follows it.
  const DeviceBatch placed =
      Base::UploadContext(context, WindowPadding::kAfter);
  const int64_t last =
      std::min(static_cast<int64_t>(context.size()), settings_.sample_tokens) -
      1;
  Forward(EvaluationOf(placed), placed.inputs);
  LinearForward<T>(
      compute(),
      {1, settings_.width, settings_.vocabulary, WeightLayout::kOutIn},
      final_norm_.y + last * settings_.width, parameter(tensors_.tokens),
      nullptr, head_.logits);
  return Base::FetchLogits(head_.logits, settings_.vocabulary);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaGpt(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config) {
  ASSIGN_OR_RETURN(const GptSettings settings, ReadGptSettings(config));
  return CreateCudaModelOf<CudaGpt>(parts, precision, settings);
}

}  // namespace ringmaster::cuda
