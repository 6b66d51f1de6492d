// Plain versions of the operators of convolutional networks: the oracles that
// fast ones are compared with.
//
// One loop nest each, straight from the formula, sums in double. Shapes, meaning
// and preconditions are those of the fast operator of the same name; all
// outputs are written (=). T is float or double.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_CONV_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_CONV_H_

#include <cstdint>

#include "worker/nn/conv2d.h"
#include "worker/nn/pooling.h"

namespace ringmaster::reference {

template <typename T>
void Conv2dForward(const Conv2dShape& shape, const T* x, const T* weight,
                   const T* bias, T* y);
template <typename T>
void Conv2dBackwardInput(const Conv2dShape& shape, const T* dy, const T* weight,
                         T* dx);
template <typename T>
void Conv2dBackwardParameters(const Conv2dShape& shape, const T* dy, const T* x,
                              T* dweight, T* dbias);

template <typename T>
void MaxPoolForward(const PoolingShape& shape, const T* x, T* y,
                    uint8_t* winners);
template <typename T>
void MaxPoolBackward(const PoolingShape& shape, const T* dy,
                     const uint8_t* winners, T* dx);

template <typename T>
void ReluForward(int64_t count, T* x);
template <typename T>
void ReluBackward(int64_t count, const T* y, const T* dy, T* dx);

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_CONV_H_
