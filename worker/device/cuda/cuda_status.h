// CudaStatus turns an error of the CUDA runtime into an absl::Status.
//
// Thread-safety: a pure function.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// OK for cudaSuccess. Otherwise the message is "<what>: <CUDA's name>: <CUDA's
// words>", and the code says what to do:
//   FAILED_PRECONDITION  there is no GPU, or no driver that this build can use
//   RESOURCE_EXHAUSTED   the device is out of memory
//   INTERNAL             anything else; the process' CUDA context may be lost
[[nodiscard]] absl::Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STATUS_H_
