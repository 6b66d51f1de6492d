// A kernel under FMA_KERNEL_COPTS, for the test of CallOnCpuFma.
#ifndef RINGMASTER_COMMON_TENSOR_TESTING_FUSED_KERNEL_H_
#define RINGMASTER_COMMON_TENSOR_TESTING_FUSED_KERNEL_H_

#include <cstdint>

namespace ringmaster {

// y[i] = x[i] * x[i] - 1, by CallOnCpuFma.
void FusedSquareMinusOne(const float* x, float* y, int64_t count);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_TESTING_FUSED_KERNEL_H_
