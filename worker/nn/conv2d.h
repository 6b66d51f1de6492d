// Two-dimensional convolution with stride 1 and a border of zeros that keeps an
// image's size ("same").
//
//   y[b,r,c,o] = bias[o] + sum over i, j, n of
//                weight[o,i,j,n] * x[b, r + i - kernel/2, c + j - kernel/2, n]
//
// Shapes: x [batch,height,width,in] and y [batch,height,width,out], channels
// innermost; weight [out,kernel,kernel,in]; bias [out]; gradients have the shape
// of what they belong to; scratch [Conv2dScratchElems]. Outputs must not overlap
// inputs. T is float or double, and Precision makes no difference.
// Direct, with no matrix of patches: a sample is copied once, with its border,
// and tiles of sums that stay in registers walk over the copy. A weight that is
// not finite shows as NaN along the border too.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute. Threads share samples, up to 16 at once, so a
// batch of one sample is computed by one of them.
#ifndef RINGMASTER_WORKER_NN_CONV2D_H_
#define RINGMASTER_WORKER_NN_CONV2D_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct Conv2dShape {
  int64_t batch;
  int64_t height;
  int64_t width;
  int64_t in;      // channels
  int64_t out;     // channels
  int64_t kernel;  // odd
  // Other than 1 for cuDNN's graphs only, see strided_conv.h.
  int64_t stride = 1;
};

// Elements of scratch that is enough for each operator below, for this batch or
// a smaller one.
int64_t Conv2dScratchElems(const Compute& compute, const Conv2dShape& shape);

// The memory that a convolution computes in.
template <typename T>
struct Conv2dScratch {
  T* data = nullptr;
  int64_t elems = 0;
};

// y =
template <typename T>
void Conv2dForward(const Compute& compute, const Conv2dShape& shape, const T* x,
                   const T* weight, const T* bias, Conv2dScratch<T> scratch,
                   T* y);

// dx =
template <typename T>
void Conv2dBackwardInput(const Compute& compute, const Conv2dShape& shape,
                         const T* dy, const T* weight, Conv2dScratch<T> scratch,
                         T* dx);

// dweight and dbias = or +=. Both in one, since both are sums over all of dy.
template <typename T>
void Conv2dBackwardParameters(const Compute& compute, const Conv2dShape& shape,
                              Write write, const T* dy, const T* x,
                              Conv2dScratch<T> scratch, T* dweight, T* dbias);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CONV2D_H_
