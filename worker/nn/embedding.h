// The embedding operator: each token id picks a row of a table.
//
// Shapes: ids [count], table [vocabulary,dim], y [count,dim]. T is float or
// double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_EMBEDDING_H_
#define RINGMASTER_WORKER_NN_EMBEDDING_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct EmbeddingShape {
  int64_t count;
  int64_t vocabulary;
  int64_t dim;
};

// y [count,dim] =. Requires ids in [0, vocabulary).
template <typename T>
void EmbeddingForward(const Compute& compute, EmbeddingShape shape,
                      const int32_t* ids, const T* table, T* y);

// Elements of scratch that the gradients of up to `ids` ids are given: none.
inline int64_t EmbeddingScratchElems(const Compute& /*compute*/,
                                     int64_t /*ids*/) {
  return 0;
}

// dtable [vocabulary,dim] = or +=: rows of dy are added in order of position,
// so the result does not vary.
template <typename T>
void EmbeddingBackward(const Compute& compute, EmbeddingShape shape,
                       Write write, const int32_t* ids, const T* dy,
                       int32_t* scratch, T* dtable);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_EMBEDDING_H_
