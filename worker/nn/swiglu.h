// The gated linear unit of Llama's MLP: y = silu(gate) * up, where silu(x) = x /
// (1 + exp(-x)) (Shazeer, "GLU Variants Improve Transformer", 2020).
//
// All arrays are [count]. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated. A NaN stays NaN.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_SWIGLU_H_
#define RINGMASTER_WORKER_NN_SWIGLU_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// y =
template <typename T>
void SwiGluForward(const Compute& compute, int64_t count, const T* gate,
                   const T* up, T* y);

// dgate =, dup =. `gate` and `up` are forward's; dgate may be dy.
template <typename T>
void SwiGluBackward(const Compute& compute, int64_t count, const T* gate,
                    const T* up, const T* dy, T* dgate, T* dup);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_SWIGLU_H_
