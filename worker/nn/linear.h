// The linear operator: y = x * weight^T + bias.
//
// Shapes: x [batch,in], bias [out], y [batch,out]; weight [out,in] or [in,out],
// as its layout says; gradients have the shape of what they belong to. Outputs
// must not overlap inputs. T is float or double.
// Precision::kBFloat16 rounds what is multiplied (see Gemm); biases, sums and
// outputs are float.
// Guarantees: the same result, to the bit, for every size of the pool. After a
// first call of a shape, nothing is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_LINEAR_H_
#define RINGMASTER_WORKER_NN_LINEAR_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

// The layout of a weight in memory.
enum class WeightLayout {
  kOutIn,  // [out,in], as in PyTorch's Linear
  kInOut,  // [in,out], as in GPT-2's Conv1D
};

struct LinearShape {
  int64_t batch;
  int64_t in;
  int64_t out;
  WeightLayout layout = WeightLayout::kOutIn;
};

// y =. `bias` may be null: none.
template <typename T>
void LinearForward(const Compute& compute, LinearShape shape, const T* x,
                   const T* weight, const T* bias, T* y);

// The same, then GELU: pre = x * weight^T + bias, y = GELU(pre). GeluBackward
// wants `pre`.
template <typename T>
void LinearGeluForward(const Compute& compute, LinearShape shape, const T* x,
                       const T* weight, const T* bias, T* pre, T* y,
                       GeluForm form = GeluForm::kTanh);

// dx = or +=
template <typename T>
void LinearBackwardInput(const Compute& compute, LinearShape shape, const T* dy,
                         const T* weight, T* dx, Write write = Write::kSet);

// The same for an x that is GELU(pre), pre [batch,in]: dpre =
template <typename T>
void LinearGeluBackwardInput(const Compute& compute, LinearShape shape,
                             const T* dy, const T* weight, const T* pre,
                             T* dpre, GeluForm form = GeluForm::kTanh);

// dweight = or +=
template <typename T>
void LinearBackwardWeight(const Compute& compute, LinearShape shape,
                          Write write, const T* dy, const T* x, T* dweight);

// dbias = or +=
template <typename T>
void LinearBackwardBias(const Compute& compute, LinearShape shape, Write write,
                        const T* dy, T* dbias);

// Both: dweight and dbias = or +=
template <typename T>
void LinearBackwardParameters(const Compute& compute, LinearShape shape,
                              Write write, const T* dy, const T* x, T* dweight,
                              T* dbias);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_LINEAR_H_
