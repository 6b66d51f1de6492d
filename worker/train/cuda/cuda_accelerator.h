// The accelerator that is an NVIDIA GPU: models of worker/nn/cuda, NCCL between
// ranks.
//
// Everything runs in order on one stream, but for batches on their way in
// (batch_upload.h) and collectives (nccl_communicator.h).
#ifndef RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_
#define RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/nn/cuda/cudnn_session.h"
#include "worker/train/accelerator.h"

namespace ringmaster {

struct CudaAcceleratorOptions {
  int ordinal = 0;  // of those that CUDA shows this process
  // For tests where ranks outnumber GPUs; see NcclSettings.
  bool share_gpu = false;
  // Whether matrix products' algorithms are measured. Without it, two processes
  // on equal GPUs compute the same bits.
  bool tune = true;
  // Whether training passes are replayed as CUDA graphs.
  bool use_graphs = true;
  // Whose kernels compute attention, and whose convolutions.
  cuda::KernelChoice attention = cuda::KernelChoice::kAuto;
  cuda::KernelChoice convolution = cuda::KernelChoice::kAuto;
  // Where it is kept which matrix products' algorithms were the fastest; empty:
  // nowhere.
  std::string cache_directory = {};
};

// Errors as CudaDevice::Open;
//   NOT_FOUND      cuBLASLt is not installed
//   UNIMPLEMENTED  it is older than this build needs
[[nodiscard]] absl::StatusOr<std::unique_ptr<Accelerator>> OpenCudaAccelerator(
    const CudaAcceleratorOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_CUDA_CUDA_ACCELERATOR_H_
