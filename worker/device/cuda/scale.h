// Scale multiplies a vector on the GPU by a number, to turn the sum over a
// batch into its mean.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_SCALE_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_SCALE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringmaster {

// data[i] *= factor for each i in [0, count), queued on `stream`. `data` is
// device memory; `count` is in elements and may be 0. Returns the launch's
// error; one of the kernel itself shows when the stream is next waited for.
[[nodiscard]] cudaError_t ScaleOnDevice(float* data, int64_t count,
                                        float factor, cudaStream_t stream);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_SCALE_H_
