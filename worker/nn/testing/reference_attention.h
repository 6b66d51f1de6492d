// Plain versions of attention.h: the whole matrix of probabilities, straight
// from the formula, sums in double. Same shapes and meaning.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_ATTENTION_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_ATTENTION_H_

#include "worker/nn/attention.h"
#include "worker/nn/compute.h"

namespace ringmaster::reference {

template <typename T>
void AttentionForward(AttentionShape shape, const Dropout& dropout,
                      const T* qkv, T* out, T* log_sum_exp);

template <typename T>
void AttentionBackward(AttentionShape shape, const Dropout& dropout,
                       const T* dout, const T* qkv, T* dqkv);

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_ATTENTION_H_
