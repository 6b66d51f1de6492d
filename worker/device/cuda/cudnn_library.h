// CudnnLibrary is cuDNN, loaded while the program runs: its backend API, whose
// graphs of operations become single kernels.
//
// Thread-safety: immutable; cuDNN's own rules hold for its functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDNN_LIBRARY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDNN_LIBRARY_H_

#include <cudnn.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/machine/cuda_libraries.h"

namespace ringmaster {

// The functions of cuDNN that we call, without the prefix.
#define RINGMASTER_CUDNN_FUNCTIONS(X) \
  X(GetVersion)                       \
  X(GetErrorString)                   \
  X(GetLastErrorString)               \
  X(Create)                           \
  X(Destroy)                          \
  X(SetStream)                        \
  X(BackendCreateDescriptor)          \
  X(BackendDestroyDescriptor)         \
  X(BackendSetAttribute)              \
  X(BackendGetAttribute)              \
  X(BackendFinalize)                  \
  X(BackendExecute)

struct CudnnFunctions {
#define RINGMASTER_CUDNN_POINTER(name) decltype(cudnn##name)* name = nullptr;
  RINGMASTER_CUDNN_FUNCTIONS(RINGMASTER_CUDNN_POINTER)
#undef RINGMASTER_CUDNN_POINTER
};

class CudnnLibrary {
 public:
  // The oldest that this program can use.
  static constexpr int64_t kOldestVersion = kOldestCudnn;

  // Loads it from the place of CUDA's libraries (cuda_libraries.h).
  //   NOT_FOUND      it is not installed
  //   UNIMPLEMENTED  it is older than kOldestVersion or of another major version
  [[nodiscard]] static absl::StatusOr<CudnnLibrary> Load();

  // As CUDNN_VERSION: 91900 is 9.19.0.
  int64_t version() const { return version_; }
  const CudnnFunctions& functions() const { return functions_; }

  // OK for CUDNN_STATUS_SUCCESS; otherwise UNIMPLEMENTED for what the library
  // or the GPU cannot do, FAILED_PRECONDITION for wrong use, RESOURCE_EXHAUSTED
  // for memory, INTERNAL for the rest, and a message "<what>: <its words>",
  // with its own words on its last error.
  [[nodiscard]] absl::Status ToStatus(cudnnStatus_t result,
                                      std::string_view what) const;

 private:
  CudnnLibrary() = default;
  [[nodiscard]] absl::Status Bind();

  int64_t version_ = 0;
  CudnnFunctions functions_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDNN_LIBRARY_H_
