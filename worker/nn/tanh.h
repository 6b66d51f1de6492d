// The hyperbolic tangent as an activation.
//
// All arrays have `count` elements. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_TANH_H_
#define RINGMASTER_WORKER_NN_TANH_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// In place.
template <typename T>
void TanhForward(const Compute& compute, int64_t count, T* x);

// dx =. `y` is what forward left; dx may be dy.
template <typename T>
void TanhBackward(const Compute& compute, int64_t count, const T* y,
                  const T* dy, T* dx);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TANH_H_
