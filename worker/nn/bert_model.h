// The model `bert`: a bidirectional transformer with the architecture of BERT
// (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for
// Language Understanding", 2019) or of RoBERTa (Liu et al., 2019). Predicts the
// tokens of a text that are masked, or, with `classes`, the class of one or two
// texts.
//
//   token ids [B,W] -> norm(tokens + positions + types) -> blocks -> head
//   block: x = norm(x + attention(x)); x = norm(x + mlp(x))
//   head of masked tokens: of `targets` tokens of a sample,
//     norm(gelu(linear(x))) -> logits by the transposed token embedding + bias
//   head of classes: of the first token, tanh(linear(x)) -> linear
//
// Which tokens are masked is drawn anew in each training pass, and always alike
// in evaluations (texts.h). A sample of texts ends with its last token that is
// not `padding`; what follows has no influence. A token's type is the number of
// separators before it.
// Tensors have Hugging Face's names and shapes, so that BertForMaskedLM,
// BertForSequenceClassification and RoBERTa's read them. Dropout, while
// training, is where they have it.
// flops_per_sample: as gpt's (gpt_model.h), with all of the attention's
// products, and the head's for what is predicted.
// Settings: vocabulary (257), window (256), layers (4), heads (4), width (128),
// a multiple of heads, hidden (4 * width), roberta (0), type_vocabulary (2, or
// 1 of RoBERTa), padding (0, or 1), separator (none), mask (vocabulary - 1),
// norm_epsilon (1e-12), dropout (0), classes (0), masked_share (0.15),
// sample_tokens (window).
#ifndef RINGMASTER_WORKER_NN_BERT_MODEL_H_
#define RINGMASTER_WORKER_NN_BERT_MODEL_H_

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
#include "worker/nn/bert_layout.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/compute.h"
#include "worker/nn/dropout.h"
#include "worker/nn/embedding.h"
#include "worker/nn/fill_zero.h"
#include "worker/nn/gather.h"
#include "worker/nn/gelu.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/linear.h"
#include "worker/nn/model.h"
#include "worker/nn/norm_buffers.h"
#include "worker/nn/tanh.h"
#include "worker/nn/texts.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster {

template <typename Backend>
class Bert final : public Backend {
 public:
  Bert(const typename Backend::Parts& parts, const BertSettings& settings)
      : Backend(parts),
        settings_(settings),
        input_(BertInput(settings)),
        tensors_(LayOutBert(settings)) {}

  static absl::StatusOr<BertSettings> ReadSettings(const ModelConfig& config) {
    return ReadBertSettings(config);
  }

  absl::Span<const TensorSpec> specs() const override { return tensors_.specs; }
  const ModelInput& input() const override { return input_; }
  double flops_per_sample() const override {
    return BertFlopsPerSample(settings_);
  }
  std::string HuggingFaceConfig() const override {
    return BertHuggingFaceConfig(settings_);
  }

 protected:
  using PlacedBatch = typename Backend::PlacedBatch;

  void Cut(BufferCutter& cutter) override;
  const char* kind() const override { return "bert"; }
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

  // Shapes are for B samples, W tokens, C = width, F = hidden, H = heads, and P
  // rows that the head looks at.

  using NormBuffers = ringmaster::NormBuffers<T, Sum>;

  // The values that a block's forward pass keeps for its backward pass.
  struct BlockBuffers {
    T* qkv = nullptr;            // [3,B*W,C]
    Sum* log_sum_exp = nullptr;  // [B,H,W]
    T* attention = nullptr;      // [B*W,C]
    NormBuffers attention_norm;
    T* hidden = nullptr;     // [B*W,F]: before the GELU
    T* activated = nullptr;  // [B*W,F]: after it
    NormBuffers mlp_norm;
  };

  // One run through the model.
  struct Pass {
    const PlacedBatch& batch;
    BertShapes shape;
    double dropout_rate = 0;
    PassOptions options = {};
    // The input and the targets: of masked tokens, with masks, and what they
    // were.
    const int32_t* ids = nullptr;
    const int32_t* targets = nullptr;
  };
  struct Backward {
    const Pass& pass;
    GradientObserver& observer;

    Write write() const { return pass.options.write; }
  };

  auto ResidualDropout(const Pass& pass, uint64_t site) const {
    return Backend::DropoutAt(pass.batch, pass.dropout_rate, site,
                              pass.shape.residual_elems());
  }
  auto AttentionDropout(const Pass& pass, size_t block) const {
    return Backend::DropoutAt(pass.batch, pass.dropout_rate,
                              BertDropoutSite::Attention(block),
                              pass.shape.attention_elems());
  }
  // Dropout of the rows [P,C], in place.
  void DropPicked(const Pass& pass, uint64_t site, T* rows) {
    if (pass.dropout_rate == 0) return;
    ApplyDropout<T>(compute(),
                    Backend::DropoutAt(pass.batch, pass.dropout_rate, site,
                                       settings_.width),
                    pass.shape.picked(), rows, rows);
  }

  AttentionShape AttentionOf(const Pass& pass) const {
    // Windows of masked tokens have no padding.
    return pass.shape.Attention(settings_.is_masked() ? nullptr : lengths_);
  }
  // The input of a block: the output of what is before.
  const T* InputOf(size_t block) const {
    return block == 0 ? embedding_norm_.y : blocks_[block - 1].mlp_norm.y;
  }

  // Reads off the ids what passes want to know, and returns the pass.
  Pass Begin(const PlacedBatch& batch, double dropout_rate,
             const PassOptions& options);
  void Forward(const Pass& pass);
  void Embed(const Pass& pass);
  void ForwardAttention(const Pass& pass, size_t block);
  void ForwardMlp(const Pass& pass, size_t block);
  // norm.sum = x + drop(branch_), norm.y = normalized.
  void Normalize(const Pass& pass, BertTensorPair tensors,
                 const NormBuffers& norm, const T* x, uint64_t site);
  // Returns what the output is computed from, [P,C].
  const T* ForwardHead(const Pass& pass);

  // From dpicked_, the gradient of ForwardHead's result, to dy_.
  void BackwardHead(const Backward& run);
  // Both from dy_, the gradient of the block's output, to that of its input.
  void BackwardMlp(const Backward& run, size_t block);
  void BackwardAttention(const Backward& run, size_t block);
  void BackwardEmbedding(const Backward& run);
  // dsum = the gradient of norm.sum, from that of norm.y. `branch` is the
  // linear operator at the end of the branch that was added, null if there is
  // none.
  void BackwardNorm(const Backward& run, BertTensorPair tensors,
                    const NormBuffers& norm, const T* dy, T* dsum,
                    const BertTensorPair* branch);
  // Gradients of a linear operator's tensors.
  void BackwardTensors(const Backward& run, LinearShape shape,
                       BertTensorPair tensors, const T* dy, const T* x);
  // The same for the operator at a branch's end, for which BackwardNorm was
  // called.
  void BackwardBranchEnd(const Backward& run, LinearShape shape,
                         BertTensorPair tensors, const T* dy, const T* x);
  // The gradient of what was dropped at `site` and then added, from the sum's.
  const T* Dropped(const Pass& pass, uint64_t site, const T* dsum);
  void Done(const Backward& run, BertTensorPair tensors) {
    run.observer.OnTensorDone(tensors.weight);
    run.observer.OnTensorDone(tensors.bias);
  }

  const BertSettings settings_;
  const ModelInput input_;
  const BertTensors tensors_;

  // Read off the ids.
  int32_t* inputs_ = nullptr;   // [B,W]: with masks
  int32_t* targets_ = nullptr;  // [P]: what was masked
  int32_t* places_ = nullptr;   // [P]: rows that the head looks at
  int32_t* lengths_ = nullptr;  // [B]
  T* types_ = nullptr;          // [B*W,types]
  NormBuffers embedding_norm_;
  std::vector<BlockBuffers> blocks_;  // in order of execution
  T* branch_ = nullptr;    // [B*W,C]: what is added next; while going back, its
                           // gradient, if there is dropout
  T* picked_ = nullptr;    // [P,C]
  T* head_pre_ = nullptr;  // [P,C]: before the GELU; after the tanh
  T* head_activated_ = nullptr;  // [P,C]
  NormBuffers head_norm_;
  // Gradients while going back.
  T* dy_ = nullptr;       // [B*W,C]
  T* dx_ = nullptr;       // [B*W,C]
  T* dwide_ = nullptr;    // [B*W, F or 3C]
  T* dpicked_ = nullptr;  // [P,C]
  T* dhead_ = nullptr;    // [P,C]
  // Scratch.
  Sum* norm_scratch_ = nullptr;
  Sum* attention_scratch_ = nullptr;
  int32_t* embedding_scratch_ = nullptr;
  typename Backend::ClassifierScratch output_;
};

template <typename Backend>
void Bert<Backend>::Cut(BufferCutter& cutter) {
  const BertShapes most = {settings_, max_batch()};
  const int64_t rows = most.rows();
  const int64_t narrow = rows * settings_.width;
  const int64_t hidden = rows * settings_.hidden;
  const int64_t picked = most.picked() * settings_.width;
  inputs_ = cutter.Take<int32_t>(rows);
  targets_ = cutter.Take<int32_t>(most.picked());
  places_ = cutter.Take<int32_t>(most.picked());
  lengths_ = cutter.Take<int32_t>(max_batch());
  types_ = cutter.Take<T>(rows * settings_.types);
  embedding_norm_ = TakeNormBuffers<T, Sum>(most.Rows(), cutter);
  blocks_.clear();
  for (int64_t i = 0; i < settings_.layers; ++i) {
    BlockBuffers& block = blocks_.emplace_back();
    block.qkv = cutter.Take<T>(3 * narrow);
    block.log_sum_exp = cutter.Take<Sum>(rows * settings_.heads);
    block.attention = cutter.Take<T>(narrow);
    block.attention_norm = TakeNormBuffers<T, Sum>(most.Rows(), cutter);
    block.hidden = cutter.Take<T>(hidden);
    block.activated = cutter.Take<T>(hidden);
    block.mlp_norm = TakeNormBuffers<T, Sum>(most.Rows(), cutter);
  }
  branch_ = cutter.Take<T>(narrow);
  picked_ = cutter.Take<T>(picked);
  head_pre_ = cutter.Take<T>(picked);
  head_activated_ = cutter.Take<T>(picked);
  head_norm_ = TakeNormBuffers<T, Sum>(most.PickedRows(), cutter);
  dy_ = cutter.Take<T>(narrow);
  dx_ = cutter.Take<T>(narrow);
  dwide_ = cutter.Take<T>(std::max(3 * narrow, hidden));
  dpicked_ = cutter.Take<T>(picked);
  dhead_ = cutter.Take<T>(picked);
  norm_scratch_ =
      cutter.Take<Sum>(LayerNormScratchElems(compute(), most.Rows()));
  attention_scratch_ = cutter.Take<Sum>(
      AttentionScratchElems(compute(), most.Attention(nullptr)));
  embedding_scratch_ =
      cutter.Take<int32_t>(EmbeddingScratchElems(compute(), rows));
  output_ = TakeClassifierScratch<T>(compute(), most.Head(), cutter);
}

template <typename Backend>
auto Bert<Backend>::Begin(const PlacedBatch& batch, double dropout_rate,
                          const PassOptions& options) -> Pass {
  Pass pass = {.batch = batch,
               .shape = {settings_, batch.size},
               .dropout_rate = dropout_rate,
               .options = options,
               .ids = batch.inputs,
               .targets = batch.targets};
  FindTypes<T>(compute(), pass.shape.Texts(), settings_.types,
               static_cast<int32_t>(settings_.separator), batch.inputs, types_);
  if (!settings_.is_masked()) {
    FindTexts(compute(), pass.shape.Texts(),
              static_cast<int32_t>(settings_.padding), batch.inputs, lengths_,
              places_);
    return pass;
  }
  MaskTokens(
      compute(), pass.shape.Masking(),
      Backend::DropoutAt(batch, settings_.masked_share,
                         BertDropoutSite::kMasking, settings_.sample_tokens),
      batch.inputs, inputs_, places_, targets_);
  pass.ids = inputs_;
  pass.targets = targets_;
  return pass;
}

template <typename Backend>
void Bert<Backend>::Normalize(const Pass& pass, BertTensorPair tensors,
                              const NormBuffers& norm, const T* x,
                              uint64_t site) {
  ResidualLayerNormForward<T>(
      compute(), pass.shape.Rows(), x, branch_, ResidualDropout(pass, site),
      norm.sum, parameter(tensors.weight), parameter(tensors.bias),
      settings_.norm_epsilon, norm.y, norm.mean, norm.rstd);
}

template <typename Backend>
void Bert<Backend>::Embed(const Pass& pass) {
  T* const embedded = dx_;
  TokenEmbeddingForward<T>(compute(), pass.shape.Embedding(), pass.ids,
                           parameter(tensors_.tokens),
                           parameter(tensors_.positions) +
                               settings_.first_position() * settings_.width,
                           embedded);
  LinearForward<T>(compute(), pass.shape.Types(), types_,
                   parameter(tensors_.types), nullptr, branch_);
  const NormBuffers& norm = embedding_norm_;
  ResidualLayerNormForward<T>(
      compute(), pass.shape.Rows(), embedded, branch_, /*dropout_of_delta=*/{},
      norm.sum, parameter(tensors_.embedding_norm.weight),
      parameter(tensors_.embedding_norm.bias), settings_.norm_epsilon, norm.y,
      norm.mean, norm.rstd);
  if (pass.dropout_rate == 0) return;
  ApplyDropout<T>(compute(), ResidualDropout(pass, BertDropoutSite::kEmbedding),
                  pass.shape.samples, norm.y, norm.y);
}

template <typename Backend>
void Bert<Backend>::Forward(const Pass& pass) {
  Embed(pass);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (pass.options.is_cancelled()) return;
    ForwardAttention(pass, i);
    ForwardMlp(pass, i);
  }
}

template <typename Backend>
void Bert<Backend>::ForwardAttention(const Pass& pass, size_t block) {
  const BertBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  const LinearShape square =
      pass.shape.Linear(settings_.width, settings_.width);
  const AttentionShape shape = AttentionOf(pass);
  for (size_t part = 0; part < tensors.attention_input.size(); ++part) {
    LinearForward<T>(
        compute(), square, InputOf(block),
        parameter(tensors.attention_input[part].weight),
        parameter(tensors.attention_input[part].bias),
        buffers.qkv + static_cast<int64_t>(part) * shape.part_stride());
  }
  AttentionForward<T>(compute(), shape, AttentionDropout(pass, block),
                      buffers.qkv, buffers.attention, buffers.log_sum_exp);
  LinearForward<T>(compute(), square, buffers.attention,
                   parameter(tensors.attention_output.weight),
                   parameter(tensors.attention_output.bias), branch_);
  Normalize(pass, tensors.attention_norm, buffers.attention_norm,
            InputOf(block), BertDropoutSite::AttentionOutput(block));
}

template <typename Backend>
void Bert<Backend>::ForwardMlp(const Pass& pass, size_t block) {
  const BertBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  LinearGeluForward<T>(
      compute(), pass.shape.Linear(settings_.width, settings_.hidden),
      buffers.attention_norm.y, parameter(tensors.mlp_input.weight),
      parameter(tensors.mlp_input.bias), buffers.hidden, buffers.activated,
      GeluForm::kErf);
  LinearForward<T>(compute(),
                   pass.shape.Linear(settings_.hidden, settings_.width),
                   buffers.activated, parameter(tensors.mlp_output.weight),
                   parameter(tensors.mlp_output.bias), branch_);
  Normalize(pass, tensors.mlp_norm, buffers.mlp_norm, buffers.attention_norm.y,
            BertDropoutSite::MlpOutput(block));
}

template <typename Backend>
auto Bert<Backend>::ForwardHead(const Pass& pass) -> const T* {
  const LinearShape square = pass.shape.PickedLinear();
  const T* const weight = parameter(tensors_.head.weight);
  const T* const bias = parameter(tensors_.head.bias);
  GatherForward<T>(compute(), pass.shape.Picked(), places_,
                   InputOf(blocks_.size()), picked_);
  if (settings_.is_masked()) {
    LinearGeluForward<T>(compute(), square, picked_, weight, bias, head_pre_,
                         head_activated_, GeluForm::kErf);
    const NormBuffers& norm = head_norm_;
    ResidualLayerNormForward<T>(
        compute(), pass.shape.PickedRows(), head_activated_, nullptr,
        /*dropout_of_delta=*/{}, norm.sum, parameter(tensors_.head_norm.weight),
        parameter(tensors_.head_norm.bias), settings_.norm_epsilon, norm.y,
        norm.mean, norm.rstd);
    return norm.y;
  }
  if (settings_.is_roberta)
    DropPicked(pass, BertDropoutSite::kHeadInput, picked_);
  LinearForward<T>(compute(), square, picked_, weight, bias, head_pre_);
  TanhForward<T>(compute(), square.batch * square.out, head_pre_);
  if (pass.dropout_rate == 0) return head_pre_;
  ApplyDropout<T>(
      compute(),
      Backend::DropoutAt(pass.batch, pass.dropout_rate,
                         BertDropoutSite::kHeadOutput, settings_.width),
      pass.shape.picked(), head_pre_, head_activated_);
  return head_activated_;
}

template <typename Backend>
void Bert<Backend>::Train(const PlacedBatch& batch, const PassOptions& options,
                          GradientObserver& observer, PassSums* sums) {
  const Pass pass = Begin(batch, settings_.dropout, options);
  Forward(pass);
  if (options.is_cancelled()) return;
  const Backward run = {pass, observer};
  ClassifierTrain<T>(compute(), pass.shape.Head(), batch.scale, options.write,
                     ForwardHead(pass), parameter(tensors_.output.weight),
                     parameter(tensors_.output.bias), pass.targets, output_,
                     dpicked_, gradient(tensors_.output.weight),
                     gradient(tensors_.output.bias), &sums->loss_sum);
  observer.OnForwardDone();
  BackwardHead(run);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (options.is_cancelled()) return;
    BackwardMlp(run, i);
    BackwardAttention(run, i);
  }
  if (options.is_cancelled()) return;
  BackwardEmbedding(run);
}

template <typename Backend>
void Bert<Backend>::BackwardHead(const Backward& run) {
  const LinearShape square = run.pass.shape.PickedLinear();
  const int64_t elems = square.batch * square.out;
  if (settings_.is_masked()) {
    run.observer.OnTensorDone(tensors_.output.bias);
    NormBuffers norm = head_norm_;
    norm.sum = head_activated_;
    FillZero(compute(), elems, dhead_);
    LayerNormBackward<T>(
        compute(), run.pass.shape.PickedRows(), run.write(), dpicked_, norm.sum,
        parameter(tensors_.head_norm.weight), norm.mean, norm.rstd,
        norm_scratch_, dhead_, gradient(tensors_.head_norm.weight),
        gradient(tensors_.head_norm.bias));
    Done(run, tensors_.head_norm);
    GeluBackward<T>(compute(), elems, head_pre_, dhead_, dhead_,
                    GeluForm::kErf);
  } else {
    Done(run, tensors_.output);
    DropPicked(run.pass, BertDropoutSite::kHeadOutput, dpicked_);
    TanhBackward<T>(compute(), elems, head_pre_, dpicked_, dhead_);
  }
  BackwardTensors(run, square, tensors_.head, dhead_, picked_);
  LinearBackwardInput<T>(compute(), square, dhead_,
                         parameter(tensors_.head.weight), dpicked_);
  if (!settings_.is_masked() && settings_.is_roberta)
    DropPicked(run.pass, BertDropoutSite::kHeadInput, dpicked_);
  GatherBackward<T>(compute(), run.pass.shape.Picked(), places_, dpicked_, dy_);
}

template <typename Backend>
void Bert<Backend>::BackwardMlp(const Backward& run, size_t block) {
  const BertBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  const LinearShape output =
      run.pass.shape.Linear(settings_.hidden, settings_.width);
  const LinearShape input =
      run.pass.shape.Linear(settings_.width, settings_.hidden);
  BackwardNorm(run, tensors.mlp_norm, buffers.mlp_norm, dy_, dx_,
               &tensors.mlp_output);
  const T* const dbranch =
      Dropped(run.pass, BertDropoutSite::MlpOutput(block), dx_);
  BackwardBranchEnd(run, output, tensors.mlp_output, dbranch,
                    buffers.activated);
  LinearGeluBackwardInput<T>(compute(), output, dbranch,
                             parameter(tensors.mlp_output.weight),
                             buffers.hidden, dwide_, GeluForm::kErf);
  BackwardTensors(run, input, tensors.mlp_input, dwide_,
                  buffers.attention_norm.y);
  LinearBackwardInput<T>(compute(), input, dwide_,
                         parameter(tensors.mlp_input.weight), dx_, Write::kAdd);
}

template <typename Backend>
void Bert<Backend>::BackwardAttention(const Backward& run, size_t block) {
  const BertBlockTensors& tensors = tensors_.blocks[block];
  const BlockBuffers& buffers = blocks_[block];
  const LinearShape square =
      run.pass.shape.Linear(settings_.width, settings_.width);
  const AttentionShape shape = AttentionOf(run.pass);
  BackwardNorm(run, tensors.attention_norm, buffers.attention_norm, dx_, dy_,
               &tensors.attention_output);
  const T* const dbranch =
      Dropped(run.pass, BertDropoutSite::AttentionOutput(block), dy_);
  BackwardBranchEnd(run, square, tensors.attention_output, dbranch,
                    buffers.attention);
  LinearBackwardInput<T>(compute(), square, dbranch,
                         parameter(tensors.attention_output.weight), dx_);
  AttentionBackward<T>(compute(), shape, AttentionDropout(run.pass, block), dx_,
                       buffers.qkv, buffers.attention, buffers.log_sum_exp,
                       attention_scratch_, dwide_);
  for (size_t part = tensors.attention_input.size(); part-- > 0;) {
    const T* const dpart =
        dwide_ + static_cast<int64_t>(part) * shape.part_stride();
    BackwardTensors(run, square, tensors.attention_input[part], dpart,
                    InputOf(block));
    LinearBackwardInput<T>(compute(), square, dpart,
                           parameter(tensors.attention_input[part].weight), dy_,
                           Write::kAdd);
  }
}

template <typename Backend>
void Bert<Backend>::BackwardEmbedding(const Backward& run) {
  const TokenEmbeddingShape shape = run.pass.shape.Embedding();
  if (run.pass.dropout_rate != 0) {
    ApplyDropout<T>(compute(),
                    ResidualDropout(run.pass, BertDropoutSite::kEmbedding),
                    shape.samples, dy_, dy_);
  }
  BackwardNorm(run, tensors_.embedding_norm, embedding_norm_, dy_, dx_,
               /*branch=*/nullptr);
  LinearBackwardWeight<T>(compute(), run.pass.shape.Types(), run.write(), dx_,
                          types_, gradient(tensors_.types));
  run.observer.OnTensorDone(tensors_.types);
  Sum* const dpositions = gradient(tensors_.positions);
  const int64_t first = settings_.first_position() * settings_.width;
  if (run.write() == Write::kSet) {
    // Also the positions that no sample has.
    FillZero(compute(), settings_.positions() * settings_.width, dpositions);
  }
  TokenEmbeddingBackwardPositions<T>(compute(), shape, run.write(), dx_,
                                     dpositions + first);
  run.observer.OnTensorDone(tensors_.positions);
  // An output of masked tokens has written its part already.
  EmbeddingBackward<T>(compute(), run.pass.shape.Tokens(),
                       settings_.is_masked() ? Write::kAdd : run.write(),
                       run.pass.ids, dx_, embedding_scratch_,
                       gradient(tensors_.tokens));
  run.observer.OnTensorDone(tensors_.tokens);
}

template <typename Backend>
void Bert<Backend>::BackwardNorm(const Backward& run, BertTensorPair tensors,
                                 const NormBuffers& norm, const T* dy, T* dsum,
                                 const BertTensorPair* branch) {
  Sum* const dbranch_bias = branch == nullptr || run.pass.dropout_rate != 0
                                ? nullptr
                                : gradient(branch->bias);
  FillZero(compute(), run.pass.shape.rows() * settings_.width, dsum);
  LayerNormBackward<T>(compute(), run.pass.shape.Rows(), run.write(), dy,
                       norm.sum, parameter(tensors.weight), norm.mean,
                       norm.rstd, norm_scratch_, dsum, gradient(tensors.weight),
                       gradient(tensors.bias), dbranch_bias);
  Done(run, tensors);
}

template <typename Backend>
void Bert<Backend>::BackwardTensors(const Backward& run, LinearShape shape,
                                    BertTensorPair tensors, const T* dy,
                                    const T* x) {
  // Before the gradient of the input: their reduction can then run meanwhile.
  LinearBackwardParameters<T>(compute(), shape, run.write(), dy, x,
                              gradient(tensors.weight), gradient(tensors.bias));
  Done(run, tensors);
}

template <typename Backend>
void Bert<Backend>::BackwardBranchEnd(const Backward& run, LinearShape shape,
                                      BertTensorPair tensors, const T* dy,
                                      const T* x) {
  // Dropout is between the norm and the bias.
  if (run.pass.dropout_rate != 0)
    return BackwardTensors(run, shape, tensors, dy, x);
  LinearBackwardWeight<T>(compute(), shape, run.write(), dy, x,
                          gradient(tensors.weight));
  Done(run, tensors);
}

template <typename Backend>
auto Bert<Backend>::Dropped(const Pass& pass, uint64_t site, const T* dsum)
    -> const T* {
  if (pass.dropout_rate == 0) return dsum;
  ApplyDropout<T>(compute(), ResidualDropout(pass, site), pass.shape.samples,
                  dsum, branch_);
  return branch_;
}

template <typename Backend>
void Bert<Backend>::Evaluate(const PlacedBatch& batch, PassSums* sums) {
  const Pass pass = Begin(batch, /*dropout_rate=*/0, /*options=*/{});
  Forward(pass);
  ClassifierPredict<T>(compute(), pass.shape.Head(), ForwardHead(pass),
                       parameter(tensors_.output.weight),
                       parameter(tensors_.output.bias), pass.targets, output_,
                       &sums->predicted_loss, &sums->correct,
                       input_.classes > 0 ? this->NoteOutcomes() : nullptr);
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BERT_MODEL_H_
