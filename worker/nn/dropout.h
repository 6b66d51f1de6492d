// Dropout (Srivastava et al., "Dropout", JMLR 2014) of an activation on its
// own; operators that drop on the way use dropout_mask.h themselves.
//
// Guarantees: which elements are dropped is a function of the key, the sample's
// id and the element's place in the sample alone; the same result, to the bit,
// for every size of the pool. Nothing is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_DROPOUT_H_
#define RINGMASTER_WORKER_NN_DROPOUT_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// y = x where kept, divided by 1 - rate, and 0 elsewhere; a NaN stays NaN. Its
// own backward pass: dx = ApplyDropout(dy) with the same dropout. x and y are
// [samples, dropout.elems_per_sample], and may be the same array. T is float or
// double.
template <typename T>
void ApplyDropout(const Compute& compute, const Dropout& dropout,
                  int64_t samples, const T* x, T* y);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_DROPOUT_H_
