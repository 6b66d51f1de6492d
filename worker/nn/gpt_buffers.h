// GptBuffers is the memory of a GPT's activations and their gradients: one
// arena, cut once for the largest batch.
//
// Shapes are for B samples, W = window, C = width, H = heads, V = vocabulary.
// Thread-safety: thread-compatible.
// Ownership: owns what its pointers point to.
#ifndef RINGMASTER_WORKER_NN_GPT_BUFFERS_H_
#define RINGMASTER_WORKER_NN_GPT_BUFFERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/gpt_layout.h"

namespace ringmaster {

// A layer norm's input and output, and what its backward pass needs.
template <typename T>
struct GptNormBuffers {
  T* sum = nullptr;   // [B*W,C]: the residual stream
  T* y = nullptr;     // [B*W,C]
  T* mean = nullptr;  // [B*W]
  T* rstd = nullptr;  // [B*W]
};

// The values that a block's forward pass keeps for its backward pass.
template <typename T>
struct GptBlockBuffers {
  GptNormBuffers<T> attention_norm;
  T* qkv = nullptr;          // [B*W,3C]
  T* log_sum_exp = nullptr;  // [B,H,W]
  T* attention = nullptr;    // [B*W,C]
  GptNormBuffers<T> mlp_norm;
  T* hidden = nullptr;     // [B*W,4C]: before the GELU
  T* activated = nullptr;  // [B*W,4C]: after it
};

template <typename T>
class GptBuffers {
 public:
  // RESOURCE_EXHAUSTED  no memory. Requires max_batch >= 0.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GptBuffers>> Create(
      const GptSettings& settings, int64_t max_batch);

  int64_t size_bytes() const { return arena_.size_bytes(); }

  std::vector<GptBlockBuffers<T>> blocks;  // in order of execution
  GptNormBuffers<T> final_norm;
  // [B*W,C]: what is to be added to the residual stream; while going back, its
  // gradient, if there is dropout.
  T* branch = nullptr;
  // Gradients while going back.
  T* dresidual = nullptr;  // [B*W,C]: of the residual stream
  T* dnarrow = nullptr;    // [B*W,C]: of a norm's or the attention's output
  T* dwide = nullptr;      // [B*W,4C]: of `hidden`, or of `qkv`
  // Scratch.
  T* norm_scratch = nullptr;  // LayerNormScratchElems
  T* logits = nullptr;        // [rows that the classifier takes at once, V]

 private:
  void Cut(const GptSettings& settings, int64_t max_batch,
           BufferCutter<T>& cutter);

  BufferArena<T> arena_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GPT_BUFFERS_H_
