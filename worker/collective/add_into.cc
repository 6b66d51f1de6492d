#include "worker/collective/add_into.h"

#include <limits>

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

RM_KERNEL void AddFloats(float* __restrict into, const float* __restrict from,
                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) into[i] += from[i];
}

RM_KERNEL void AddFloatsCommutative(float* __restrict into,
                                    const float* __restrict from,
                                    int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float sum = into[i] + from[i];
    into[i] = sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
  }
}

// Unsigned, because sums of counters and hashes may wrap around.
RM_KERNEL void AddIntegers(uint64_t* __restrict into,
                           const uint64_t* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) into[i] += from[i];
}

void AddInt64(void* into, const void* from, int64_t count) {
  CallOnCpu<AddIntegers>(static_cast<uint64_t*>(into),
                         static_cast<const uint64_t*>(from), count);
}

}  // namespace

bool IsReducible(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kInt64;
}

void AddInto(DType dtype, void* into, const void* from, int64_t count) {
  if (dtype == DType::kInt64) return AddInt64(into, from, count);
  CallOnCpu<AddFloats>(static_cast<float*>(into),
                       static_cast<const float*>(from), count);
}

void AddIntoCommutative(DType dtype, void* into, const void* from,
                        int64_t count) {
  if (dtype == DType::kInt64) return AddInt64(into, from, count);
  CallOnCpu<AddFloatsCommutative>(static_cast<float*>(into),
                                  static_cast<const float*>(from), count);
}

}  // namespace ringmaster
