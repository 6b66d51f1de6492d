#include "worker/nn/gpt_buffers.h"

#include <algorithm>

#include "common/status/status_macros.h"
#include "worker/nn/classifier.h"
#include "worker/nn/layer_norm.h"

namespace ringmaster {
namespace {

template <typename T>
GptNormBuffers<T> TakeNorm(RowShape shape, BufferCutter<T>& cutter) {
  GptNormBuffers<T> norm;
  norm.sum = cutter.Take(shape.rows * shape.dim);
  norm.y = cutter.Take(shape.rows * shape.dim);
  norm.mean = cutter.Take(shape.rows);
  norm.rstd = cutter.Take(shape.rows);
  return norm;
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<GptBuffers<T>>> GptBuffers<T>::Create(
    const GptSettings& settings, int64_t max_batch) {
  auto buffers = std::make_unique<GptBuffers>();
  RETURN_IF_ERROR(buffers->arena_.Plan([&](BufferCutter<T>& cutter) {
    buffers->Cut(settings, max_batch, cutter);
  }));
  return buffers;
}

template <typename T>
void GptBuffers<T>::Cut(const GptSettings& settings, int64_t max_batch,
                        BufferCutter<T>& cutter) {
  // A next token may be asked for after a whole window.
  const RowShape rows = {
      max_batch == 0
          ? 0
          : std::max(max_batch * settings.sample_tokens, settings.window),
      settings.width};
  const int64_t elems = rows.rows * rows.dim;
  blocks.resize(static_cast<size_t>(settings.layers));
  for (GptBlockBuffers<T>& block : blocks) {
    block.attention_norm = TakeNorm(rows, cutter);
    block.qkv = cutter.Take(3 * elems);
    block.log_sum_exp = cutter.Take(rows.rows * settings.heads);
    block.attention = cutter.Take(elems);
    block.mlp_norm = TakeNorm(rows, cutter);
    block.hidden = cutter.Take(rows.rows * settings.hidden());
    block.activated = cutter.Take(rows.rows * settings.hidden());
  }
  final_norm = TakeNorm(rows, cutter);
  branch = cutter.Take(elems);
  dresidual = cutter.Take(elems);
  dnarrow = cutter.Take(elems);
  dwide = cutter.Take(rows.rows * settings.hidden());
  norm_scratch = cutter.Take(LayerNormScratchElems(rows));
  // At least one row, for the logits of a next token.
  const int64_t logit_rows = std::max<int64_t>(
      1, ClassifierChunkRows(
             HeadShape{rows.rows, settings.width, settings.vocabulary}));
  logits = cutter.Take(logit_rows * settings.vocabulary);
}

template class GptBuffers<float>;
template class GptBuffers<double>;

}  // namespace ringmaster
