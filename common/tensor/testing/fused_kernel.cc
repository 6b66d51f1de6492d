#include "common/tensor/testing/fused_kernel.h"

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

RM_KERNEL void SquareMinusOne(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i] - 1.0f;
}

}  // namespace

void FusedSquareMinusOne(const float* x, float* y, int64_t count) {
  CallOnCpuFma<SquareMinusOne>(x, y, count);
}

}  // namespace ringmaster
