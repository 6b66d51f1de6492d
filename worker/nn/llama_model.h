// The model `llama`: a language model with the architecture of Llama (Touvron et
// al., "LLaMA: Open and Efficient Foundation Language Models", 2023), and with
// grouped-query attention, as later ones have it.
//
//   token ids [B,W] -> tokens -> blocks -> RMSNorm -> logits -> cross entropy
//   block: x += attention(norm(x)), with rotary positions
//          x += down(silu(gate(norm(x))) * up(norm(x)))
//
// Tensors have Hugging Face's names and shapes, so that its LlamaForCausalLM
// reads them. There is no dropout, and no bias.
// Settings: vocabulary (256), window (256), layers (4), heads (4), kv_heads
// (heads), a divisor of heads, width (128), an even multiple of heads, hidden
// (8/3 of the width, rounded up to a multiple of 8), rope_theta (10000),
// norm_epsilon (1e-5), tied (0): 1 if the head is the token embedding,
// sample_tokens (window): a sample may be shorter than what the model can see.
// flops_per_sample: as gpt's (gpt_model.h).
#ifndef RINGMASTER_WORKER_NN_LLAMA_MODEL_H_
#define RINGMASTER_WORKER_NN_LLAMA_MODEL_H_

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
#include "worker/nn/embedding.h"
#include "worker/nn/fill_zero.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/llama_layout.h"
#include "worker/nn/model.h"
#include "worker/nn/rotary.h"
#include "worker/nn/swiglu.h"

namespace ringmaster {

template <typename Backend>
class Llama final : public Backend {
 public:
  Llama(const typename Backend::Parts& parts, const LlamaSettings& settings)
      : Backend(parts),
        settings_(settings),
        input_(LlamaInput(settings)),
        tensors_(LayOutLlama(settings)) {}

  static absl::StatusOr<LlamaSettings> ReadSettings(const ModelConfig& config) {
    return ReadLlamaSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return tensors_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return LlamaFlopsPerSample(settings_);
  }
  std::string HuggingFaceConfig() const override {
    return LlamaHuggingFaceConfig(settings_);
  }
  absl::StatusOr<absl::Span<const typename Backend::Parameter>> NextTokenLogits(
      absl::Span<const int32_t> context) override;

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  void FillConstants() override {
    RotaryTable(compute(), settings_.window, settings_.head_dim(),
                settings_.rope_theta, rotary_table_);
  }
  const char* kind() const override { return "llama"; }
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

  // Shapes are for B samples, W tokens, C = width, K = width of the keys, F =
  // hidden, H = heads.

  // A norm's input and output, and what its backward pass needs.
  struct NormBuffers {
    T* sum = nullptr;     // [B*W,C]: the residual stream
    T* y = nullptr;       // [B*W,C]
    Sum* rstd = nullptr;  // [B*W]
  };

  // The values that a block's forward pass keeps for its backward pass.
  struct BlockBuffers {
    NormBuffers attention_norm;
    T* qkv = nullptr;            // [B*W,3C]: turned, a key for each query
    Sum* log_sum_exp = nullptr;  // [B,H,W]
    T* attention = nullptr;      // [B*W,C]
    NormBuffers mlp_norm;
    T* gate = nullptr;       // [B*W,F]
    T* up = nullptr;         // [B*W,F]
    T* activated = nullptr;  // [B*W,F]
  };

  // The shape and options of one run through the model.
  struct Pass {
    const PlacedBatch& batch;
    LlamaShapes shape;
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

  LlamaShapes ShapesOf(int64_t samples) const {
    return {settings_, samples, settings_.sample_tokens};
  }

  static NormBuffers TakeNorm(RowShape shape, BufferCutter& cutter);
  // The same buffers from the first row on that the pass computes.
  NormBuffers From(const Pass& pass, const NormBuffers& norm) const;
  BlockBuffers From(const Pass& pass, const BlockBuffers& block) const;

  // Fills the final norm's output.
  void Forward(const Pass& pass);
  // norm.sum = x + delta, norm.y = normalized.
  void Normalize(const Pass& pass, int gamma, const NormBuffers& norm,
                 const T* x, const T* delta);
  void ForwardAttention(const Pass& pass, size_t block);
  // Attention alone, in the block's buffers.
  void Attend(const Pass& pass, size_t block);
  void ForwardMlp(const Pass& pass, size_t block);

  void BackwardBlocks(const Backward& run);
  void BackwardAttention(const Backward& run, size_t block);
  void BackwardMlp(const Backward& run, size_t block);
  // dresidual_ += the gradient of norm.sum, from dnarrow_, that of norm.y.
  void BackwardNorm(const Backward& run, int gamma, const NormBuffers& norm);
  // The gradient of a linear operator's weight.
  void BackwardWeight(const Backward& run, LinearShape shape, int weight,
                      const T* dy, const T* x);

  const LlamaSettings settings_;
  const ModelInput input_;
  const LlamaTensors tensors_;

  std::vector<BlockBuffers> blocks_;  // in order of execution
  NormBuffers final_norm_;
  // [window, head_dim]: of the positions' angles.
  Sum* rotary_table_ = nullptr;
  // Queries, keys and values before they are turned; while going back, their
  // gradients.
  T* query_ = nullptr;   // [B*W,C]
  T* key_ = nullptr;     // [B*W,K]
  T* value_ = nullptr;   // [B*W,K]
  T* branch_ = nullptr;  // [B*W,C]: what is to be added to the residual stream
  // Gradients while going back.
  T* dresidual_ = nullptr;  // [B*W,C]: of the residual stream
  T* dnarrow_ = nullptr;    // [B*W,C]: of a norm's or the attention's output
  T* dwide_ = nullptr;      // [B*W, F or 3C]: of `gate`, or of `qkv`
  T* dup_ = nullptr;        // [B*W,F]
  // Scratch.
  Sum* norm_scratch_ = nullptr;
  Sum* attention_scratch_ = nullptr;
  int32_t* embedding_scratch_ = nullptr;
  typename Backend::ClassifierScratch head_;
};

template <typename Backend>
typename Llama<Backend>::NormBuffers Llama<Backend>::TakeNorm(
    RowShape shape, BufferCutter& cutter) {
  NormBuffers norm;
  norm.sum = cutter.Take<T>(shape.rows * shape.dim);
  norm.y = cutter.Take<T>(shape.rows * shape.dim);
  norm.rstd = cutter.Take<Sum>(shape.rows);
  return norm;
}

template <typename Backend>
void Llama<Backend>::Cut(BufferCutter& cutter) {
  const LlamaShapes most = ShapesOf(max_batch());
  // A next token may be asked for after a longer text than a sample is.
  const RowShape shape = {
      max_batch() == 0 ? 0
                       : std::max(most.rows(), Backend::ContextTokens(
                                                   settings_.window,
                                                   settings_.sample_tokens)),
      settings_.width};
  const int64_t rows = shape.rows;
  const int64_t narrow = rows * settings_.width;
  const int64_t hidden = rows * settings_.hidden;
  blocks_.clear();
  for (int64_t i = 0; i < settings_.layers; ++i) {
    BlockBuffers& block = blocks_.emplace_back();
    block.attention_norm = TakeNorm(shape, cutter);
    block.qkv = cutter.Take<T>(3 * narrow);
    block.log_sum_exp = cutter.Take<Sum>(rows * settings_.heads);
    block.attention = cutter.Take<T>(narrow);
    block.mlp_norm = TakeNorm(shape, cutter);
    block.gate = cutter.Take<T>(hidden);
    block.up = cutter.Take<T>(hidden);
    block.activated = cutter.Take<T>(hidden);
  }
  final_norm_ = TakeNorm(shape, cutter);
  rotary_table_ = cutter.Take<Sum>(settings_.window * settings_.head_dim());
  query_ = cutter.Take<T>(narrow);
  key_ = cutter.Take<T>(rows * settings_.kv_width());
  value_ = cutter.Take<T>(rows * settings_.kv_width());
  branch_ = cutter.Take<T>(narrow);
  dresidual_ = cutter.Take<T>(narrow);
  dnarrow_ = cutter.Take<T>(narrow);
  dwide_ = cutter.Take<T>(std::max(3 * narrow, hidden));
  dup_ = cutter.Take<T>(hidden);
  norm_scratch_ = cutter.Take<Sum>(LayerNormScratchElems(compute(), shape));
  attention_scratch_ =
      cutter.Take<Sum>(AttentionScratchElems(compute(), most.Attention()));
  embedding_scratch_ =
      cutter.Take<int32_t>(EmbeddingScratchElems(compute(), rows));
  head_ = TakeClassifierScratch<T>(
      compute(), {rows, settings_.width, settings_.vocabulary}, cutter);
}

template <typename Backend>
auto Llama<Backend>::From(const Pass& pass, const NormBuffers& norm) const
    -> NormBuffers {
  const int64_t first = pass.known * settings_.width;
  return {norm.sum + first, norm.y + first, norm.rstd + pass.known};
}

template <typename Backend>
auto Llama<Backend>::From(const Pass& pass, const BlockBuffers& block) const
    -> BlockBuffers {
  const int64_t first = pass.known * settings_.width;
  const int64_t first_hidden = pass.known * settings_.hidden;
  BlockBuffers from = block;
  from.attention_norm = From(pass, block.attention_norm);
  from.qkv += 3 * first;
  from.attention += first;
  from.mlp_norm = From(pass, block.mlp_norm);
  from.gate += first_hidden;
  from.up += first_hidden;
  from.activated += first_hidden;
  return from;
}

template <typename Backend>
void Llama<Backend>::Normalize(const Pass& pass, int gamma,
                               const NormBuffers& norm, const T* x,
                               const T* delta) {
  ResidualLayerNormForward<T>(
      compute(), pass.shape.Rows(), x, delta, /*dropout_of_delta=*/{}, norm.sum,
      parameter(gamma), /*beta=*/nullptr, settings_.norm_epsilon, norm.y,
      /*mean=*/nullptr, norm.rstd);
}

template <typename Backend>
void Llama<Backend>::Forward(const Pass& pass) {
  T* const embedded = From(pass, blocks_[0]).attention_norm.sum;
  EmbeddingForward<T>(compute(), pass.shape.Tokens(),
                      pass.batch.inputs + pass.known,
                      parameter(tensors_.tokens), embedded);
  // A block's output is added to the residual stream on the way into the next
  // norm.
  const T* residual = embedded;
  const T* delta = nullptr;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (pass.options.is_cancelled()) return;
    const BlockBuffers buffers = From(pass, blocks_[i]);
    Normalize(pass, tensors_.blocks[i].attention_norm, buffers.attention_norm,
              residual, delta);
    ForwardAttention(pass, i);
    Normalize(pass, tensors_.blocks[i].mlp_norm, buffers.mlp_norm,
              buffers.attention_norm.sum, branch_);
    ForwardMlp(pass, i);
    residual = buffers.mlp_norm.sum;
    delta = branch_;
  }
  Normalize(pass, tensors_.final_norm, From(pass, final_norm_), residual,
            delta);
}

template <typename Backend>
void Llama<Backend>::ForwardAttention(const Pass& pass, size_t block) {
  const LlamaBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers buffers = From(pass, blocks_[block]);
  const int64_t width = settings_.width;
  const LinearShape of_keys = pass.shape.Linear(width, settings_.kv_width());
  const T* const x = buffers.attention_norm.y;
  LinearForward<T>(compute(), pass.shape.Linear(width, width), x,
                   parameter(tensors.query), nullptr, query_);
  LinearForward<T>(compute(), of_keys, x, parameter(tensors.key), nullptr,
                   key_);
  LinearForward<T>(compute(), of_keys, x, parameter(tensors.value), nullptr,
                   value_);
  RotaryForward<T>(compute(), pass.shape.Rotary(), query_, key_, value_,
                   rotary_table_ + pass.known * settings_.head_dim(),
                   buffers.qkv);
  Attend(pass, block);
  LinearForward<T>(compute(), pass.shape.Linear(width, width),
                   buffers.attention, parameter(tensors.attention_output),
                   nullptr, branch_);
}

template <typename Backend>
void Llama<Backend>::Attend(const Pass& pass, size_t block) {
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
  AttentionForward<T>(compute(), shape, /*dropout=*/{}, buffers.qkv,
                      buffers.attention, buffers.log_sum_exp);
}

template <typename Backend>
void Llama<Backend>::ForwardMlp(const Pass& pass, size_t block) {
  const LlamaBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers buffers = From(pass, blocks_[block]);
  const LinearShape input =
      pass.shape.Linear(settings_.width, settings_.hidden);
  LinearForward<T>(compute(), input, buffers.mlp_norm.y,
                   parameter(tensors.gate), nullptr, buffers.gate);
  LinearForward<T>(compute(), input, buffers.mlp_norm.y, parameter(tensors.up),
                   nullptr, buffers.up);
  SwiGluForward<T>(compute(), input.batch * input.out, buffers.gate, buffers.up,
                   buffers.activated);
  LinearForward<T>(
      compute(), pass.shape.Linear(settings_.hidden, settings_.width),
      buffers.activated, parameter(tensors.down), nullptr, branch_);
}

template <typename Backend>
void Llama<Backend>::Train(const PlacedBatch& batch, const PassOptions& options,
                           GradientObserver& observer, PassSums* sums) {
  const Pass pass = {
      .batch = batch, .shape = ShapesOf(batch.size), .options = options};
  Forward(pass);
  if (options.is_cancelled()) return;
  const Backward run = {pass, observer};
  ClassifierTrain<T>(compute(), pass.shape.Head(), batch.scale, options.write,
                     final_norm_.y, parameter(tensors_.head), nullptr,
                     batch.targets, head_, dnarrow_, gradient(tensors_.head),
                     nullptr, &sums->loss_sum);
  observer.OnForwardDone();
  if (!settings_.is_tied) observer.OnTensorDone(tensors_.head);
  FillZero(compute(), pass.shape.rows() * settings_.width, dresidual_);
  BackwardNorm(run, tensors_.final_norm, final_norm_);
  BackwardBlocks(run);
  if (options.is_cancelled()) return;
  // A tied head has written its part already.
  EmbeddingBackward<T>(compute(), pass.shape.Tokens(),
                       settings_.is_tied ? Write::kAdd : options.write,
                       batch.inputs, dresidual_, embedding_scratch_,
                       gradient(tensors_.tokens));
  observer.OnTensorDone(tensors_.tokens);
}

template <typename Backend>
void Llama<Backend>::BackwardBlocks(const Backward& run) {
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (run.pass.options.is_cancelled()) return;
    BackwardMlp(run, i);
    BackwardAttention(run, i);
  }
}

template <typename Backend>
void Llama<Backend>::BackwardMlp(const Backward& run, size_t block) {
  const LlamaBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.hidden, settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, settings_.hidden);
  BackwardWeight(run, output, tensors.down, dresidual_, buffers.activated);
  LinearBackwardInput<T>(compute(), output, dresidual_, parameter(tensors.down),
                         dwide_);
  SwiGluBackward<T>(compute(), input.batch * input.out, buffers.gate,
                    buffers.up, dwide_, dwide_, dup_);
  BackwardWeight(run, input, tensors.up, dup_, buffers.mlp_norm.y);
  BackwardWeight(run, input, tensors.gate, dwide_, buffers.mlp_norm.y);
  LinearBackwardInput<T>(compute(), input, dup_, parameter(tensors.up),
                         dnarrow_);
  LinearBackwardInput<T>(compute(), input, dwide_, parameter(tensors.gate),
                         dnarrow_, Write::kAdd);
  BackwardNorm(run, tensors.mlp_norm, buffers.mlp_norm);
}

template <typename Backend>
void Llama<Backend>::BackwardAttention(const Backward& run, size_t block) {
  const LlamaBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  const LinearShape square =
      run.pass.shape.Linear(settings_.width, settings_.width);
  const LinearShape of_keys =
      run.pass.shape.Linear(settings_.width, settings_.kv_width());
  const T* const x = buffers.attention_norm.y;
  BackwardWeight(run, square, tensors.attention_output, dresidual_,
                 buffers.attention);
  LinearBackwardInput<T>(compute(), square, dresidual_,
                         parameter(tensors.attention_output), dnarrow_);
  AttentionBackward<T>(compute(), run.pass.shape.Attention(), /*dropout=*/{},
                       dnarrow_, buffers.qkv, buffers.attention,
                       buffers.log_sum_exp, attention_scratch_, dwide_);
  RotaryBackward<T>(compute(), run.pass.shape.Rotary(), dwide_, rotary_table_,
                    query_, key_, value_);
  BackwardWeight(run, of_keys, tensors.value, value_, x);
  BackwardWeight(run, of_keys, tensors.key, key_, x);
  BackwardWeight(run, square, tensors.query, query_, x);
  LinearBackwardInput<T>(compute(), of_keys, value_, parameter(tensors.value),
                         dnarrow_);
  LinearBackwardInput<T>(compute(), of_keys, key_, parameter(tensors.key),
                         dnarrow_, Write::kAdd);
  LinearBackwardInput<T>(compute(), square, query_, parameter(tensors.query),
                         dnarrow_, Write::kAdd);
  BackwardNorm(run, tensors.attention_norm, buffers.attention_norm);
}

template <typename Backend>
void Llama<Backend>::BackwardNorm(const Backward& run, int gamma,
                                  const NormBuffers& norm) {
  LayerNormBackward<T>(compute(), run.pass.shape.Rows(), run.write(), dnarrow_,
                       norm.sum, parameter(gamma), /*mean=*/nullptr, norm.rstd,
                       norm_scratch_, dresidual_, gradient(gamma),
                       /*dbeta=*/nullptr);
  run.observer.OnTensorDone(gamma);
}

template <typename Backend>
void Llama<Backend>::BackwardWeight(const Backward& run, LinearShape shape,
                                    int weight, const T* dy, const T* x) {
  // Before the gradient of the input: its reduction can then run meanwhile.
  LinearBackwardWeight<T>(compute(), shape, run.write(), dy, x,
                          gradient(weight));
  run.observer.OnTensorDone(weight);
}

template <typename Backend>
void Llama<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  const Pass pass = {.batch = batch, .shape = ShapesOf(batch.size)};
  Forward(pass);
  ClassifierPredict<T>(compute(), pass.shape.Head(), final_norm_.y,
                       parameter(tensors_.head), nullptr, batch.targets, head_,
                       &sums->predicted_loss, &sums->correct);
}

template <typename Backend>
absl::StatusOr<absl::Span<const typename Backend::Parameter>>
Llama<Backend>::NextTokenLogits(absl::Span<const int32_t> context) {
  // The context does not see what follows it.
  const auto placed =
      Backend::PlaceContext(context, WindowPadding::kAfter, settings_.window);
  Forward({.batch = placed.batch,
           .shape = {settings_, 1, placed.tokens - placed.known},
           .known = placed.known});
  LinearForward<T>(compute(), {1, settings_.width, settings_.vocabulary},
                   final_norm_.y + placed.last * settings_.width,
                   parameter(tensors_.head), nullptr, head_.logits);
  return Backend::FetchLogits(head_.logits, settings_.vocabulary);
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_LLAMA_MODEL_H_
