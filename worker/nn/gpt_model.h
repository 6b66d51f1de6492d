// The model `gpt`: a language model with the architecture of GPT-2 (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019). Predicts
// the token after each of a window of tokens.
//
//   token ids [B,W] -> tokens + positions -> blocks -> layer norm
//     -> logits by the transposed token embedding -> cross entropy
//   block: x += attention(norm(x)); x += mlp(norm(x))
//
// Tensors have Hugging Face's names and shapes, so that its GPT2LMHeadModel
// reads them. Dropout, while training, is where GPT-2 has it: on the embedding,
// on the attention's probabilities, and on what is added to x.
// flops_per_sample: for each token, 6 for each parameter that is a factor of a
// product, and 6 * layers * width * sample_tokens for the attention's products,
// of which the half that a causal mask leaves is counted.
// Settings: vocabulary (256), window (256), layers (4), heads (4), width (128),
// a multiple of heads, dropout (0), sample_tokens (window): a sample may be
// shorter than what the model can see.
#ifndef RINGMASTER_WORKER_NN_GPT_MODEL_H_
#define RINGMASTER_WORKER_NN_GPT_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/nn/attention.h"
#include "worker/nn/backend.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/compute.h"
#include "worker/nn/context_window.h"
#include "worker/nn/dropout.h"
#include "worker/nn/embedding.h"
#include "worker/nn/fill_zero.h"
#include "worker/nn/gpt_layout.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/norm_buffers.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster {

template <typename Backend>
class Gpt final : public Backend {
 public:
  Gpt(const typename Backend::Parts& parts, const GptSettings& settings)
      : Backend(parts),
        settings_(settings),
        input_(GptInput(settings)),
        tensors_(LayOutGpt(settings)) {}

  static absl::StatusOr<GptSettings> ReadSettings(const ModelConfig& config) {
    return ReadGptSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return tensors_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return GptFlopsPerSample(settings_);
  }
  std::string HuggingFaceConfig() const override {
    return GptHuggingFaceConfig(settings_);
  }
  absl::StatusOr<absl::Span<const typename Backend::Parameter>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  const char* kind() const override { return "gpt"; }
  void Train(const PlacedBatch& batch, const PassOptions& options,
             GradientObserver& observer, PassSums* sums) override;
  void Evaluate(const PlacedBatch& batch, PassSums* sums) override;

 private:
  using T = typename Backend::Element;
  using Sum = typename Backend::Sum;
  using Backend::compute;
  using Backend::gradient;
  using Backend::max_batch;
  using Backend::parameter;

  // Shapes are for B samples, W tokens, C = width, H = heads.

  using NormBuffers = ringmaster::NormBuffers<T, Sum>;

  // The values that a block's forward pass keeps for its backward pass.
  struct BlockBuffers {
    NormBuffers attention_norm;
    T* qkv = nullptr;            // [B*W,3C]
    Sum* log_sum_exp = nullptr;  // [B,H,W]
    T* attention = nullptr;      // [B*W,C]
    NormBuffers mlp_norm;
    T* hidden = nullptr;     // [B*W,4C]: before the GELU
    T* activated = nullptr;  // [B*W,4C]: after it
  };

  // The shape and options of one run through the model.
  struct Pass {
    const PlacedBatch& batch;
    GptShapes shape;
    double dropout_rate = 0;
    PassOptions options = {};
    // Of one sample's tokens, those that the buffers have the values of; `shape`
    // is of the others.
    int64_t known = 0;
  };
  // One backward pass; the residual stream's gradient goes through dresidual_.
  struct Backward {
    const Pass& pass;
    GradientObserver& observer;

    Write write() const { return pass.options.write; }
  };

  GptShapes ShapesOf(int64_t samples) const {
    return {settings_, samples, settings_.sample_tokens};
  }
  // The dropout of values that are added to the residual stream.
  auto ResidualDropout(const Pass& pass, uint64_t site) const {
    return Backend::DropoutAt(pass.batch, pass.dropout_rate, site,
                              pass.shape.residual_elems());
  }
  auto AttentionDropout(const Pass& pass, size_t block) const {
    return Backend::DropoutAt(pass.batch, pass.dropout_rate,
                              GptDropoutSite::Attention(block),
                              pass.shape.attention_elems());
  }

  // The same buffers from the first row on that the pass computes.
  NormBuffers From(const Pass& pass, const NormBuffers& norm) const;
  BlockBuffers From(const Pass& pass, const BlockBuffers& block) const;

  // Fills the final norm's output.
  void Forward(const Pass& pass);
  // norm.sum = x + drop(delta), norm.y = normalized; `site` is the dropout's.
  void Normalize(const Pass& pass, WeightAndBias tensors,
                 const NormBuffers& norm, const T* x, const T* delta,
                 uint64_t site);
  void ForwardAttention(const Pass& pass, size_t block);
  // Attention alone, in the block's buffers.
  void Attend(const Pass& pass, size_t block);
  void ForwardMlp(const Pass& pass, size_t block);

  void BackwardBlocks(const Backward& run);
  void BackwardAttention(const Backward& run, size_t block);
  void BackwardMlp(const Backward& run, size_t block);
  void BackwardEmbedding(const Backward& run);
  // dresidual_ += the gradient of norm.sum, from dnarrow_, that of norm.y. Then
  // dresidual_ is that of what a branch has added to the residual stream before
  // the norm: `branch` is the linear operator at its end, null if there is
  // none.
  void BackwardNorm(const Backward& run, WeightAndBias tensors,
                    const NormBuffers& norm, const WeightAndBias* branch);
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

  std::vector<BlockBuffers> blocks_;  // in order of execution
  NormBuffers final_norm_;
  // [B*W,C]: what is to be added to the residual stream; while going back, its
  // gradient, if there is dropout.
  T* branch_ = nullptr;
  // Gradients while going back.
  T* dresidual_ = nullptr;  // [B*W,C]: of the residual stream
  T* dnarrow_ = nullptr;    // [B*W,C]: of a norm's or the attention's output
  T* dwide_ = nullptr;      // [B*W,4C]: of `hidden`, or of `qkv`
  // Scratch.
  Sum* norm_scratch_ = nullptr;
  Sum* attention_scratch_ = nullptr;
  int32_t* embedding_scratch_ = nullptr;
  typename Backend::ClassifierScratch head_;
};

template <typename Backend>
void Gpt<Backend>::Cut(BufferCutter& cutter) {
  const GptShapes most = ShapesOf(max_batch());
  // A next token may be asked for after a longer text than a sample is.
  const RowShape shape = {
      max_batch() == 0 ? 0
                       : std::max(most.rows(), Backend::ContextTokens(
                                                   settings_.window,
                                                   settings_.sample_tokens)),
      settings_.width};
  const int64_t rows = shape.rows;
  const int64_t width = settings_.width;
  blocks_.clear();
  for (int64_t i = 0; i < settings_.layers; ++i) {
    BlockBuffers& block = blocks_.emplace_back();
    block.attention_norm = TakeNormBuffers<T, Sum>(shape, cutter);
    block.qkv = cutter.Take<T>(3 * rows * width);
    block.log_sum_exp = cutter.Take<Sum>(rows * settings_.heads);
    block.attention = cutter.Take<T>(rows * width);
    block.mlp_norm = TakeNormBuffers<T, Sum>(shape, cutter);
    block.hidden = cutter.Take<T>(rows * settings_.hidden());
    block.activated = cutter.Take<T>(rows * settings_.hidden());
  }
  final_norm_ = TakeNormBuffers<T, Sum>(shape, cutter);
  branch_ = cutter.Take<T>(rows * width);
  dresidual_ = cutter.Take<T>(rows * width);
  dnarrow_ = cutter.Take<T>(rows * width);
  dwide_ = cutter.Take<T>(rows * settings_.hidden());
  norm_scratch_ = cutter.Take<Sum>(LayerNormScratchElems(compute(), shape));
  attention_scratch_ =
      cutter.Take<Sum>(AttentionScratchElems(compute(), most.Attention()));
  embedding_scratch_ =
      cutter.Take<int32_t>(EmbeddingScratchElems(compute(), rows));
  head_ = TakeClassifierScratch<T>(compute(),
                                   {rows, width, settings_.vocabulary}, cutter);
}

template <typename Backend>
auto Gpt<Backend>::From(const Pass& pass, const NormBuffers& norm) const
    -> NormBuffers {
  const int64_t first = pass.known * settings_.width;
  return {norm.sum + first, norm.y + first, norm.mean + pass.known,
          norm.rstd + pass.known};
}

template <typename Backend>
auto Gpt<Backend>::From(const Pass& pass, const BlockBuffers& block) const
    -> BlockBuffers {
  const int64_t first = pass.known * settings_.width;
  BlockBuffers from = block;
  from.attention_norm = From(pass, block.attention_norm);
  from.qkv += 3 * first;
  from.attention += first;
  from.mlp_norm = From(pass, block.mlp_norm);
  from.hidden += pass.known * settings_.hidden();
  from.activated += pass.known * settings_.hidden();
  return from;
}

template <typename Backend>
void Gpt<Backend>::Normalize(const Pass& pass, WeightAndBias tensors,
                             const NormBuffers& norm, const T* x,
                             const T* delta, uint64_t site) {
  ResidualLayerNormForward<T>(
      compute(), pass.shape.Rows(), x, delta, ResidualDropout(pass, site),
      norm.sum, parameter(tensors.weight), parameter(tensors.bias),
      kGptLayerNormEpsilon, norm.y, norm.mean, norm.rstd);
}

template <typename Backend>
void Gpt<Backend>::Forward(const Pass& pass) {
  T* const embedded = From(pass, blocks_[0]).attention_norm.sum;
  TokenEmbeddingForward<T>(
      compute(), pass.shape.Embedding(), pass.batch.inputs + pass.known,
      parameter(tensors_.tokens),
      parameter(tensors_.positions) + pass.known * settings_.width, embedded);
  if (pass.dropout_rate != 0) {
    ApplyDropout<T>(compute(),
                    ResidualDropout(pass, GptDropoutSite::kEmbedding),
                    pass.shape.samples, embedded, embedded);
  }
  // A block's output is added to the residual stream on the way into the next
  // norm.
  const T* residual = embedded;
  const T* delta = nullptr;
  uint64_t site = GptDropoutSite::kEmbedding;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (pass.options.is_cancelled()) return;
    const BlockBuffers buffers = From(pass, blocks_[i]);
    Normalize(pass, tensors_.blocks[i].attention_norm, buffers.attention_norm,
              residual, delta, site);
    ForwardAttention(pass, i);
    Normalize(pass, tensors_.blocks[i].mlp_norm, buffers.mlp_norm,
              buffers.attention_norm.sum, branch_,
              GptDropoutSite::AttentionOutput(i));
    ForwardMlp(pass, i);
    residual = buffers.mlp_norm.sum;
    delta = branch_;
    site = GptDropoutSite::MlpOutput(i);
  }
  Normalize(pass, tensors_.final_norm, From(pass, final_norm_), residual, delta,
            site);
}

template <typename Backend>
void Gpt<Backend>::ForwardAttention(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers buffers = From(pass, blocks_[block]);
  const int64_t width = settings_.width;
  LinearForward<T>(compute(), pass.shape.Linear(width, 3 * width),
                   buffers.attention_norm.y,
                   parameter(tensors.attention_input.weight),
                   parameter(tensors.attention_input.bias), buffers.qkv);
  Attend(pass, block);
  LinearForward<T>(compute(), pass.shape.Linear(width, width),
                   buffers.attention,
                   parameter(tensors.attention_output.weight),
                   parameter(tensors.attention_output.bias), branch_);
}

template <typename Backend>
void Gpt<Backend>::Attend(const Pass& pass, size_t block) {
  const BlockBuffers& buffers = blocks_[block];
  AttentionShape shape = pass.shape.Attention();
  if constexpr (Backend::kKeepsContext) {
    if (pass.known > 0) {
      shape.window += pass.known;
      AttentionOfLast<T>(compute(), shape, pass.known, buffers.qkv,
                         From(pass, buffers).attention);
      return;
    }
  }
  AttentionForward<T>(compute(), shape, AttentionDropout(pass, block),
                      buffers.qkv, buffers.attention, buffers.log_sum_exp);
}

template <typename Backend>
void Gpt<Backend>::ForwardMlp(const Pass& pass, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers buffers = From(pass, blocks_[block]);
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

template <typename Backend>
void Gpt<Backend>::Train(const PlacedBatch& batch, const PassOptions& options,
                         GradientObserver& observer, PassSums* sums) {
  const Pass pass = {.batch = batch,
                     .shape = ShapesOf(batch.size),
                     .dropout_rate = settings_.dropout,
                     .options = options};
  Forward(pass);
  if (options.is_cancelled()) return;
  const Backward run = {pass, observer};
  ClassifierTrain<T>(compute(), pass.shape.Head(), batch.scale, options.write,
                     final_norm_.y, parameter(tensors_.tokens), nullptr,
                     batch.targets, head_, dnarrow_, gradient(tensors_.tokens),
                     nullptr, &sums->loss_sum);
  observer.OnForwardDone();
  FillZero(compute(), pass.shape.rows() * settings_.width, dresidual_);
  BackwardNorm(run, tensors_.final_norm, final_norm_,
               &tensors_.blocks.back().mlp_output);
  BackwardBlocks(run);
  if (options.is_cancelled()) return;
  BackwardEmbedding(run);
}

template <typename Backend>
void Gpt<Backend>::BackwardBlocks(const Backward& run) {
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (run.pass.options.is_cancelled()) return;
    BackwardMlp(run, i);
    BackwardAttention(run, i);
  }
}

template <typename Backend>
void Gpt<Backend>::BackwardMlp(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
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

template <typename Backend>
void Gpt<Backend>::BackwardAttention(const Backward& run, size_t block) {
  const GptBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
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
  AttentionBackward<T>(compute(), run.pass.shape.Attention(),
                       AttentionDropout(run.pass, block), dnarrow_, buffers.qkv,
                       buffers.attention, buffers.log_sum_exp,
                       attention_scratch_, dwide_);
  BackwardTensors(run, input, tensors.attention_input, dwide_,
                  buffers.attention_norm.y);
  LinearBackwardInput<T>(compute(), input, dwide_,
                         parameter(tensors.attention_input.weight), dnarrow_);
  BackwardNorm(run, tensors.attention_norm, buffers.attention_norm,
               block == 0 ? nullptr : &tensors_.blocks[block - 1].mlp_output);
}

template <typename Backend>
void Gpt<Backend>::BackwardEmbedding(const Backward& run) {
  const TokenEmbeddingShape shape = run.pass.shape.Embedding();
  const T* const dembedded =
      DroppedResidual(run.pass, GptDropoutSite::kEmbedding);
  TokenEmbeddingBackwardPositions<T>(compute(), shape, run.write(), dembedded,
                                     gradient(tensors_.positions));
  if (run.write() == Write::kSet) {
    // Positions that no sample has.
    const int64_t seen = run.pass.shape.tokens * settings_.width;
    FillZero(compute(), settings_.window * settings_.width - seen,
             gradient(tensors_.positions) + seen);
  }
  run.observer.OnTensorDone(tensors_.positions);
  // The head has written its part already.
  EmbeddingBackward<T>(compute(), run.pass.shape.Tokens(), Write::kAdd,
                       run.pass.batch.inputs, dembedded, embedding_scratch_,
                       gradient(tensors_.tokens));
  run.observer.OnTensorDone(tensors_.tokens);
}

template <typename Backend>
void Gpt<Backend>::BackwardNorm(const Backward& run, WeightAndBias tensors,
                                const NormBuffers& norm,
                                const WeightAndBias* branch) {
  Sum* const dbranch_bias = branch == nullptr || run.pass.dropout_rate != 0
                                ? nullptr
                                : gradient(branch->bias);
  LayerNormBackward<T>(compute(), run.pass.shape.Rows(), run.write(), dnarrow_,
                       norm.sum, parameter(tensors.weight), norm.mean,
                       norm.rstd, norm_scratch_, dresidual_,
                       gradient(tensors.weight), gradient(tensors.bias),
                       dbranch_bias);
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename Backend>
void Gpt<Backend>::BackwardTensors(const Backward& run, LinearShape shape,
                                   WeightAndBias tensors, const T* dy,
                                   const T* x) {
  // Before the gradient of the input: their reduction can then run meanwhile.
  LinearBackwardParameters<T>(compute(), shape, run.write(), dy, x,
                              gradient(tensors.weight), gradient(tensors.bias));
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename Backend>
void Gpt<Backend>::BackwardBranchEnd(const Backward& run, LinearShape shape,
                                     WeightAndBias tensors, const T* dy,
                                     const T* x) {
  // Dropout is between the norm and the bias.
  if (run.pass.dropout_rate != 0)
    return BackwardTensors(run, shape, tensors, dy, x);
  LinearBackwardWeight<T>(compute(), shape, run.write(), dy, x,
                          gradient(tensors.weight));
  run.observer.OnTensorDone(tensors.weight);
  run.observer.OnTensorDone(tensors.bias);
}

template <typename Backend>
auto Gpt<Backend>::DroppedResidual(const Pass& pass, uint64_t site)
    -> const T* {
  if (pass.dropout_rate == 0) return dresidual_;
  ApplyDropout<T>(compute(), ResidualDropout(pass, site), pass.shape.samples,
                  dresidual_, branch_);
  return branch_;
}

template <typename Backend>
void Gpt<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  const Pass pass = {.batch = batch, .shape = ShapesOf(batch.size)};
  Forward(pass);
  ClassifierPredict<T>(compute(), pass.shape.Head(), final_norm_.y,
                       parameter(tensors_.tokens), nullptr, batch.targets,
                       head_, &sums->predicted_loss, &sums->correct);
}

template <typename Backend>
absl::StatusOr<absl::Span<const typename Backend::Parameter>>
Gpt<Backend>::NextTokenLogits(absl::Span<const int32_t> context) {
  // The context does not see what follows it.
  const auto placed =
      Backend::PlaceContext(context, WindowPadding::kAfter, settings_.window);
  Forward({.batch = placed.batch,
           .shape = {settings_, 1, placed.tokens - placed.known},
           .known = placed.known});
  LinearForward<T>(
      compute(),
      {1, settings_.width, settings_.vocabulary, WeightLayout::kOutIn},
      final_norm_.y + placed.last * settings_.width, parameter(tensors_.tokens),
      nullptr, head_.logits);
  return Backend::FetchLogits(head_.logits, settings_.vocabulary);
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GPT_MODEL_H_
