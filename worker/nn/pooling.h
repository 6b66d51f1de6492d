// Pooling: the largest of 2x2 pixels with stride 2, of which an odd last line or
// column is dropped; the largest of 3x3 with stride 2, around every other pixel
// and cut at the border, as a residual network has it; and the mean of all
// pixels.
//
// Shapes: x, dx [batch,height,width,channels]; y, dy and `winners` the same with
// half the height and width, rounded down for 2x2 and up for 3x3, or none for
// the mean. Outputs must not overlap inputs. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated. A NaN wins, so it is not hidden.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_POOLING_H_
#define RINGMASTER_WORKER_NN_POOLING_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct PoolingShape {
  int64_t batch;
  int64_t height;
  int64_t width;
  int64_t channels;
};

// y =, and `winners` = which pixel of the four it is, 0 to 3 line by line: the
// first of those that are largest.
template <typename T>
void MaxPoolForward(const Compute& compute, const PoolingShape& shape,
                    const T* x, T* y, uint8_t* winners);

// dx =, zero for what won nothing.
template <typename T>
void MaxPoolBackward(const Compute& compute, const PoolingShape& shape,
                     const T* dy, const uint8_t* winners, T* dx);

// The same for 3x3, whose winners are 0 to 8; dx = the sum over what a pixel has
// won.
template <typename T>
void MaxPool3Forward(const Compute& compute, const PoolingShape& shape,
                     const T* x, T* y, uint8_t* winners);
template <typename T>
void MaxPool3Backward(const Compute& compute, const PoolingShape& shape,
                      const T* dy, const uint8_t* winners, T* dx);

// y =, dx =
template <typename T>
void MeanPoolForward(const Compute& compute, const PoolingShape& shape,
                     const T* x, T* y);
template <typename T>
void MeanPoolBackward(const Compute& compute, const PoolingShape& shape,
                      const T* dy, T* dx);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_POOLING_H_
