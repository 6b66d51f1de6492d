// AddInto: the sum inside a reduction. Pure; compiled for wide vectors.
#ifndef RINGMASTER_WORKER_COLLECTIVE_ADD_INTO_H_
#define RINGMASTER_WORKER_COLLECTIVE_ADD_INTO_H_

#include <cstdint>

#include "common/tensor/dtype.h"

namespace ringmaster {

// True for the dtypes that reductions take: float32 and int64.
[[nodiscard]] bool IsReducible(DType dtype);

// into[i] += from[i]. int64 wraps around. Requires IsReducible(dtype); the
// ranges must not overlap.
void AddInto(DType dtype, void* into, const void* from, int64_t count);

// The same, with one NaN for all: two ranks that each add in their own order
// get the same bits. (x86 returns the first operand's NaN; everything else
// commutes.)
void AddIntoCommutative(DType dtype, void* into, const void* from,
                        int64_t count);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_ADD_INTO_H_
