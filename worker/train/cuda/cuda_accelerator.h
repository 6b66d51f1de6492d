// The accelerator that is an NVIDIA GPU: models of worker/nn/cuda, NCCL between
// ranks.
//
// Everything runs in order on one stream, except for batches on their way in
// (batch_upload.h) and collectives (nccl_communicator.h).
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/cuda/cudnn_session.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

struct CudaAcceleratorOptions {
  int ordinal = 0;  // of those that CUDA shows this process
  // For tests where ranks outnumber GPUs; see NcclSettings.
  bool share_gpu = false;
  // The algorithms of matrix products are measured. If they are not, two
  // processes on equal GPUs compute the same bits.
  bool tune = true;
  // Training passes are replayed as CUDA graphs.
  bool use_graphs = true;
  // Choices between our kernels and cuDNN's, for attention and convolutions.
  cuda::KernelChoice attention = cuda::KernelChoice::kAuto;
  cuda::KernelChoice convolution = cuda::KernelChoice::kAuto;
  // The directory that keeps the fastest algorithms of matrix products; empty:
  // they are not kept.
  std::string cache_directory = {};
};

// Errors as CudaDevice::Open;
//   NOT_FOUND      cuBLASLt is not installed
//   UNIMPLEMENTED  it is older than this build needs
[[nodiscard]] absl::StatusOr<std::unique_ptr<Accelerator>> OpenCudaAccelerator(
    const CudaAcceleratorOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_
