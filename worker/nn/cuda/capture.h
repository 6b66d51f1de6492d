// IsCapturing returns true if the work queued on a stream becomes a CUDA graph.
// During a capture, code can neither wait for the device nor allocate memory.
#ifndef RINGMASTER_WORKER_NN_CUDA_CAPTURE_H_
#define RINGMASTER_WORKER_NN_CUDA_CAPTURE_H_

#include <cuda_runtime_api.h>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// Errors are the stream's.
inline bool IsCapturing(CudaStream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  stream.Check(cudaStreamIsCapturing(stream.get(), &status),
               "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CAPTURE_H_
