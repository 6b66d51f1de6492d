// The linear operator: y = x * weight^T + bias.
//
// Shapes: x [batch,in], weight [out,in], bias [out], y [batch,out]; gradients
// have the shape of what they belong to. Outputs must not overlap inputs. T is
// float or double.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_LINEAR_H_
#define RINGMASTER_WORKER_NN_LINEAR_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct LinearShape {
  int64_t batch;
  int64_t in;
  int64_t out;
};

// y [batch,out] =
template <typename T>
void LinearForward(const Compute& compute, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y);

// dx [batch,in] =
template <typename T>
void LinearBackwardInput(const Compute& compute, LinearShape shape, const T* dy,
                         const T* weight, T* dx);

// dweight [out,in] = or +=
template <typename T>
void LinearBackwardWeight(const Compute& compute, LinearShape shape,
                          Write write, const T* dy, const T* x, T* dweight);

// dbias [out] = or +=
template <typename T>
void LinearBackwardBias(const Compute& compute, LinearShape shape, Write write,
                        const T* dy, T* dbias);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_LINEAR_H_
