// Plain versions of the operators of a GPT that reference_ops.h does not have;
// the same rules: one loop nest each, straight from the formula, sums in
// double.
//
// Shapes, meaning and preconditions are those of the fast operator of the same
// name, without Compute and scratch. T is float or double.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_GPT_OPS_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_GPT_OPS_H_

#include <cstdint>

#include "worker/nn/compute.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster::reference {

template <typename T>
void ResidualLayerNormForward(RowShape shape, const T* x, const T* delta,
                              const Dropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, T* mean, T* rstd);
template <typename T>
void LayerNormBackward(RowShape shape, Write write, const T* dy, const T* sum,
                       const T* gamma, const T* mean, const T* rstd, T* dsum,
                       T* dgamma, T* dbeta);

template <typename T>
void ApplyDropout(const Dropout& dropout, int64_t samples, const T* x, T* y);

template <typename T>
void TokenEmbeddingForward(TokenEmbeddingShape shape, const int32_t* ids,
                           const T* tokens, const T* positions, T* y);
template <typename T>
void TokenEmbeddingBackwardPositions(TokenEmbeddingShape shape, Write write,
                                     const T* dy, T* dpositions);

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_GPT_OPS_H_
