// Some rows of a matrix, which are all that a head looks at.
//
// Shapes: places [count], each in [0, rows) and once; x, dx [rows,dim]; y, dy
// [count,dim]. Outputs must not overlap inputs. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_GATHER_H_
#define RINGMASTER_WORKER_NN_GATHER_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct GatherShape {
  int64_t count;
  int64_t rows;
  int64_t dim;
};

// y[i] = x[places[i]]
template <typename T>
void GatherForward(const Compute& compute, GatherShape shape,
                   const int32_t* places, const T* x, T* y);

// dx[places[i]] = dy[i], and 0 elsewhere
template <typename T>
void GatherBackward(const Compute& compute, GatherShape shape,
                    const int32_t* places, const T* dy, T* dx);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_GATHER_H_
