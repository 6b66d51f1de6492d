// Two-dimensional convolution without a bias, with any stride, and a border of
// kernel/2 zeros on each side: those of a residual network.
//
//   y[b,r,c,o] = sum over i, j, n of weight[o,n,i,j] *
//                x[b, stride * r + i - kernel/2, stride * c + j - kernel/2, n]
//
// Shapes: x [batch,height,width,in] and y [batch,out_height,out_width,out],
// channels innermost; weight [out,in,kernel,kernel], as PyTorch has it;
// gradients have the shape of what they belong to. Outputs must not overlap
// inputs. T is float or double.
// By products of matrices (gemm.h), so Precision counts: a kernel of one pixel
// and stride 1 is one product, any other one a product with a matrix of
// patches, which is made for some samples at a time.
// Guarantees: the same result, to the bit, for every size of the pool. After a
// first call of a shape, nothing is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_STRIDED_CONV_H_
#define RINGMASTER_WORKER_NN_STRIDED_CONV_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct StridedConvShape {
  int64_t batch;
  int64_t height;
  int64_t width;
  int64_t in;      // channels
  int64_t out;     // channels
  int64_t kernel;  // odd
  int64_t stride;

  [[nodiscard]] int64_t out_height() const { return (height - 1) / stride + 1; }
  [[nodiscard]] int64_t out_width() const { return (width - 1) / stride + 1; }
  // Of one sample.
  [[nodiscard]] int64_t in_pixels() const { return height * width; }
  [[nodiscard]] int64_t out_pixels() const {
    return out_height() * out_width();
  }
  // Products that make up one output.
  [[nodiscard]] int64_t depth() const { return kernel * kernel * in; }
  [[nodiscard]] int64_t weight_elems() const { return depth() * out; }
  // Returns true if a convolution is one product of what is there.
  [[nodiscard]] bool is_pointwise() const { return kernel == 1 && stride == 1; }
};

// Elements of scratch that is enough for each operator below, for this batch or
// a smaller one.
int64_t StridedConvScratchElems(const Compute& compute,
                                const StridedConvShape& shape);

// The memory that a convolution computes in.
template <typename T>
struct StridedConvScratch {
  T* data = nullptr;
  int64_t elems = 0;
};

// y =
template <typename T>
void StridedConvForward(const Compute& compute, const StridedConvShape& shape,
                        const T* x, const T* weight,
                        StridedConvScratch<T> scratch, T* y);

// dx = or +=
template <typename T>
void StridedConvBackwardInput(const Compute& compute,
                              const StridedConvShape& shape, const T* dy,
                              const T* weight, StridedConvScratch<T> scratch,
                              Write write, T* dx);

// dweight = or +=
template <typename T>
void StridedConvBackwardWeight(const Compute& compute,
                               const StridedConvShape& shape, Write write,
                               const T* dy, const T* x,
                               StridedConvScratch<T> scratch, T* dweight);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_STRIDED_CONV_H_
