// Whether what is queued on a stream becomes a CUDA graph. Who would have to
// wait for the device, or to allocate memory, cannot do so then.
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
