// A sample of BERT's as its ids alone tell it: where it ends, which of its
// texts a token belongs to, and which tokens are masked in this pass.
//
// Shapes: ids, inputs [samples,tokens]; others as they say. T is float or
// double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_TEXTS_H_
#define RINGMASTER_WORKER_NN_TEXTS_H_

#include <cstdint>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/compute.h"
#include "worker/nn/dropout_mask.h"

namespace ringmaster {

struct TextShape {
  int64_t samples;
  int64_t tokens;
};

// lengths [samples] =: the tokens up to the last that is not `padding`, at
// least 1; firsts [samples] =: the rows of first tokens.
void FindTexts(const Compute& compute, TextShape shape, int32_t padding,
               const int32_t* ids, int32_t* lengths, int32_t* firsts);

// types [samples,tokens,count] =: 1 for the type of a token, and 0 for all
// others. A text and the separator that ends it have the number of texts before
// as their type, at most count - 1.
template <typename T>
void FindTypes(const Compute& compute, TextShape shape, int64_t count,
               int32_t separator, const int32_t* ids, T* types);

// Masking as Devlin et al., "BERT", 2019, have it: of each sample's tokens,
// `count` are to be predicted, of which eight in ten are replaced by `mask`,
// and one in ten by a token that chance picks.
struct MaskingShape {
  TextShape texts;
  int64_t count;  // of a sample
  int64_t vocabulary;
  int32_t mask;
};

// The number that decides whether a token is to be predicted: those with the
// smallest are.
RM_KERNEL constexpr uint32_t MaskingRank(DropoutMask draw, int64_t token) {
  return MaskHash(draw, static_cast<uint32_t>(token));
}

// The id that stands for one that is to be predicted.
RM_KERNEL constexpr int32_t MaskedId(const MaskingShape& shape,
                                     DropoutMask draw, int64_t token,
                                     int32_t id) {
  const auto place = static_cast<uint32_t>(shape.texts.tokens + token);
  const uint32_t chance = MaskHash(draw, place) % 10;
  if (chance < 8) return shape.mask;
  if (chance == 8) return id;
  const uint32_t other =
      MaskHash(draw, place + static_cast<uint32_t>(shape.texts.tokens));
  return static_cast<int32_t>(other % static_cast<uint32_t>(shape.vocabulary));
}

// inputs = ids, with masked ones; places [samples,count] = their rows, targets
// [samples,count] = what they were. `draw` decides as dropout does: by its key
// and a sample's id, so that a sample is masked alike on every rank. Its rate
// is not 0.
void MaskTokens(const Compute& compute, const MaskingShape& shape,
                const Dropout& draw, const int32_t* ids, int32_t* inputs,
                int32_t* places, int32_t* targets);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TEXTS_H_
