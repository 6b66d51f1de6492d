// CublasLtLibrary is cuBLASLt, NVIDIA's library of matrix products, loaded
// while the program runs.
//
// Thread-safety: immutable; cuBLASLt's own rules hold for its functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUBLASLT_LIBRARY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/machine/cuda_libraries.h"

namespace ringmaster {

// The functions of cuBLASLt that we call, without the prefix; it has had all of
// them since 11.4.
#define RINGMASTER_CUBLASLT_FUNCTIONS(X) \
  X(GetVersion)                          \
  X(GetStatusString)                     \
  X(Create)                              \
  X(Destroy)                             \
  X(MatmulDescCreate)                    \
  X(MatmulDescDestroy)                   \
  X(MatmulDescSetAttribute)              \
  X(MatrixLayoutCreate)                  \
  X(MatrixLayoutDestroy)                 \
  X(MatmulPreferenceCreate)              \
  X(MatmulPreferenceDestroy)             \
  X(MatmulPreferenceSetAttribute)        \
  X(MatmulAlgoGetHeuristic)              \
  X(MatmulAlgoCheck)                     \
  X(Matmul)

struct CublasLtFunctions {
#define RINGMASTER_CUBLASLT_POINTER(name) \
  decltype(cublasLt##name)* name = nullptr;
  RINGMASTER_CUBLASLT_FUNCTIONS(RINGMASTER_CUBLASLT_POINTER)
#undef RINGMASTER_CUBLASLT_POINTER
};

class CublasLtLibrary {
 public:
  // The oldest that this program can use.
  static constexpr int64_t kOldestVersion = kOldestCublasLt;

  // Loads it from the place of CUDA's libraries (cuda_libraries.h).
  //   NOT_FOUND      it is not installed
  //   UNIMPLEMENTED  it is older than kOldestVersion, of a later major version
  //                  than this build's headers, or its functions are not those
  //                  we call
  [[nodiscard]] static absl::StatusOr<CublasLtLibrary> Load();

  // As CUBLAS_VERSION: 130100 is 13.1.0.
  int64_t version() const { return version_; }
  const CublasLtFunctions& functions() const { return functions_; }

  // OK for CUBLAS_STATUS_SUCCESS; otherwise UNIMPLEMENTED for what the library
  // or the GPU cannot do, FAILED_PRECONDITION for wrong use, RESOURCE_EXHAUSTED
  // for memory, INTERNAL for the rest, and a message "<what>: <its words>".
  [[nodiscard]] absl::Status ToStatus(cublasStatus_t result,
                                      std::string_view what) const;

 private:
  CublasLtLibrary() = default;
  [[nodiscard]] absl::Status Bind();

  int64_t version_ = 0;
  CublasLtFunctions functions_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUBLASLT_LIBRARY_H_
