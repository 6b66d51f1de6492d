// The GELU activation (Hendrycks and Gimpel, "Gaussian Error Linear Units",
// 2016), in either form (compute.h).
//
// All arrays have `count` elements. Outputs must not overlap inputs, except for
// the one exception below. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_GELU_H_
#define RINGMASTER_WORKER_NN_GELU_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// y =
template <typename T>
void GeluForward(const Compute& compute, int64_t count, const T* x, T* y,
                 GeluForm form = GeluForm::kTanh);

// dx =. `x` is forward's input; dx may be dy.
template <typename T>
void GeluBackward(const Compute& compute, int64_t count, const T* x,
                  const T* dy, T* dx, GeluForm form = GeluForm::kTanh);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GELU_H_
