// Plain versions of operators: the oracles that fast ones are compared with, on
// any device.
//
// One loop nest each, straight from the formula, sums in double, no BLAS and no
// vector tricks. Shapes, meaning and preconditions are those of the fast
// operator of the same name. T is float or double.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_OPS_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_OPS_H_

#include <cstdint>

#include "worker/nn/embedding.h"
#include "worker/nn/gemm.h"
#include "worker/nn/linear.h"

namespace ringmaster::reference {

// c = op(a) * op(b)
template <typename T>
void Gemm(Transpose transpose_a, Transpose transpose_b, GemmShape shape,
          const T* a, const T* b, T* c);

template <typename T>
void LinearForward(LinearShape shape, const T* x, const T* weight,
                   const T* bias, T* y);
template <typename T>
void LinearGeluForward(LinearShape shape, const T* x, const T* weight,
                       const T* bias, T* pre, T* y);
template <typename T>
void LinearBackwardInput(LinearShape shape, const T* dy, const T* weight,
                         T* dx);
template <typename T>
void LinearBackwardWeight(LinearShape shape, const T* dy, const T* x,
                          T* dweight);
template <typename T>
void LinearBackwardBias(LinearShape shape, const T* dy, T* dbias);

template <typename T>
void EmbeddingForward(EmbeddingShape shape, const int32_t* ids, const T* table,
                      T* y);
template <typename T>
void EmbeddingBackward(EmbeddingShape shape, const int32_t* ids, const T* dy,
                       T* dtable);

template <typename T>
void GeluForward(int64_t count, const T* x, T* y);
template <typename T>
void GeluBackward(int64_t count, const T* x, const T* dy, T* dx);

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_OPS_H_
