// The CUDA that this build was made for; the bundle's worker is of the same.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_CUDA_BUILD_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_CUDA_BUILD_H_

#include <optional>

namespace ringmaster::ctl {

// Each as its header counts: CUDA 13.0 is 13000, NCCL 2.28.9 is 22809, cuDNN
// 9.10.2 is 91002, cuBLAS 13.1.0 is 130100.
struct CudaVersions {
  int runtime = 0;   // linked into the program
  int nccl = 0;      // loaded while it runs
  int cudnn = 0;     // the same
  int cublaslt = 0;  // the same
};

// nullopt without --config=cuda.
[[nodiscard]] std::optional<CudaVersions> BuiltCuda();

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_CUDA_BUILD_H_
