#include "server/ctl/doctor/cuda_build.h"

#include <cublas_api.h>
#include <cuda_runtime_api.h>
#include <cudnn_version.h>
#include <nccl.h>

namespace ringmaster::ctl {

std::optional<CudaVersions> BuiltCuda() {
  return CudaVersions{.runtime = CUDART_VERSION,
                      .nccl = NCCL_VERSION_CODE,
                      .cudnn = CUDNN_VERSION,
                      .cublaslt = CUBLAS_VERSION};
}

}  // namespace ringmaster::ctl
