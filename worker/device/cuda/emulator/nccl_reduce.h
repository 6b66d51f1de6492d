// The arithmetic of emulated NCCL.
//
// Thread-safety: pure functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_REDUCE_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_REDUCE_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace ringmaster::cuda_emulator {

// Returns the bytes of an element; 0 for a type that is not emulated.
size_t NcclElementBytes(ncclDataType_t dtype);

// out[i] = the reduction of all inputs' elements i, in the order of the inputs;
// 16-bit floats are combined as float. ncclInvalidArgument: not emulated, or an
// average of integers.
ncclResult_t NcclReduce(ncclDataType_t dtype, ncclRedOp_t op, size_t count,
                        const std::vector<const std::byte*>& inputs,
                        std::byte* out);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_REDUCE_H_
