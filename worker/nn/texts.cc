#include "worker/nn/texts.h"

#include <algorithm>

#include "common/sync/thread_pool.h"
#include "worker/nn/fill_zero.h"

namespace ringmaster {
namespace {

void MaskSample(const MaskingShape& shape, DropoutMask draw, int64_t sample,
                const int32_t* ids, int32_t* inputs, int32_t* places,
                int32_t* targets) {
  const int64_t tokens = shape.texts.tokens;
  for (int64_t i = 0; i < tokens; ++i) {
    const uint32_t own = MaskingRank(draw, i);
    int64_t rank = 0;
    for (int64_t j = 0; j < tokens; ++j) {
      const uint32_t other = MaskingRank(draw, j);
      rank += other < own || (other == own && j < i) ? 1 : 0;
    }
    inputs[i] = ids[i];
    if (rank >= shape.count) continue;
    inputs[i] = MaskedId(shape, draw, i, ids[i]);
    places[rank] = static_cast<int32_t>(sample * tokens + i);
    targets[rank] = ids[i];
  }
}

}  // namespace

void FindTexts(const Compute& /*compute*/, TextShape shape, int32_t padding,
               const int32_t* ids, int32_t* lengths, int32_t* firsts) {
  for (int64_t s = 0; s < shape.samples; ++s) {
    int64_t length = shape.tokens;
    while (length > 1 && ids[s * shape.tokens + length - 1] == padding)
      --length;
    lengths[s] = static_cast<int32_t>(length);
    firsts[s] = static_cast<int32_t>(s * shape.tokens);
  }
}

template <typename T>
void FindTypes(const Compute& compute, TextShape shape, int64_t count,
               int32_t separator, const int32_t* ids, T* types) {
  FillZero(compute, shape.samples * shape.tokens * count, types);
  for (int64_t s = 0; s < shape.samples; ++s) {
    int64_t type = 0;
    for (int64_t i = s * shape.tokens; i < (s + 1) * shape.tokens; ++i) {
      types[i * count + type] = 1;
      if (ids[i] == separator) type = std::min(type + 1, count - 1);
    }
  }
}

void MaskTokens(const Compute& compute, const MaskingShape& shape,
                const Dropout& draw, const int32_t* ids, int32_t* inputs,
                int32_t* places, int32_t* targets) {
  const int64_t tokens = shape.texts.tokens;
  compute.pool.ParallelFor(
      shape.texts.samples, 1, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          MaskSample(shape, DropoutMaskOf(draw, s), s, ids + s * tokens,
                     inputs + s * tokens, places + s * shape.count,
                     targets + s * shape.count);
        }
      });
}

template void FindTypes<float>(const Compute&, TextShape, int64_t, int32_t,
                               const int32_t*, float*);
template void FindTypes<double>(const Compute&, TextShape, int64_t, int32_t,
                                const int32_t*, double*);

}  // namespace ringmaster
