// The embedding of token ids with their positions: y[s,t] = tokens[ids[s,t]] +
// positions[t]. The gradient of tokens is EmbeddingBackward (embedding.h).
//
// Shapes: ids [samples,window], tokens [vocabulary,dim], y [samples,window,dim];
// positions has at least `window` rows of dim. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_TOKEN_EMBEDDING_H_
#define RINGMASTER_WORKER_NN_TOKEN_EMBEDDING_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct TokenEmbeddingShape {
  int64_t samples;
  int64_t window;
  int64_t vocabulary;
  int64_t dim;
};

// y =. Requires ids in [0, vocabulary).
template <typename T>
void TokenEmbeddingForward(const Compute& compute, TokenEmbeddingShape shape,
                           const int32_t* ids, const T* tokens,
                           const T* positions, T* y);

// dpositions [window,dim] = or +=
template <typename T>
void TokenEmbeddingBackwardPositions(const Compute& compute,
                                     TokenEmbeddingShape shape, Write write,
                                     const T* dy, T* dpositions);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TOKEN_EMBEDDING_H_
