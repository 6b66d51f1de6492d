// The rectifier: max(x, 0). T is float or double.
//
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated. A NaN stays NaN.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_RELU_H_
#define RINGMASTER_WORKER_NN_RELU_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// In place, for `count` elements.
template <typename T>
void ReluForward(const Compute& compute, int64_t count, T* x);

// dx =. `y` is what forward left; dx may be dy.
template <typename T>
void ReluBackward(const Compute& compute, int64_t count, const T* y,
                  const T* dy, T* dx);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_RELU_H_
