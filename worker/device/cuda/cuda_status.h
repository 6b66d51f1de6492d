// CudaStatus turns an error of the CUDA runtime into an absl::Status.
//
// Thread-safety: pure functions, except that they ask for the current device.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// OK for cudaSuccess. Otherwise the message is "<what>: <CUDA's name>: <CUDA's
// words> (<file>:<line>, cuda:<current device>)", and the code says what to do:
//   FAILED_PRECONDITION  there is no GPU, or no driver that this build can use
//   INVALID_ARGUMENT     there is no such device
//   RESOURCE_EXHAUSTED   the device is out of memory
//   INTERNAL             anything else; the process' CUDA context may be lost,
//                        see IsContextLost
[[nodiscard]] absl::Status CudaStatus(
    cudaError_t error, std::string_view what,
    std::source_location where = std::source_location::current());

// Returns true if `status` came from an error after which every further call of
// this process fails (CUDA calls it sticky): only a new process can use the
// device again.
[[nodiscard]] bool IsContextLost(const absl::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
