#include "worker/device/cuda/cublaslt_library.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_libraries.h"

namespace ringmaster {
namespace {

int64_t MajorOf(int64_t version) { return version / 10000; }

// The functions that we call have been the same since 11.4; a new major version
// may change them.
bool CanServe(int64_t loaded_version) {
  return loaded_version >= CublasLtLibrary::kOldestVersion &&
         MajorOf(loaded_version) <= CUBLAS_VER_MAJOR;
}

}  // namespace

absl::StatusOr<CublasLtLibrary> CublasLtLibrary::Load() {
  CublasLtLibrary library;
  RETURN_IF_ERROR(library.Bind());
  return library;
}

absl::Status CublasLtLibrary::Bind() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CublasLtNames()));
#define RINGMASTER_CUBLASLT_BIND(name) \
  RETURN_IF_ERROR(library.Find("cublasLt" #name, &functions_.name));
  RINGMASTER_CUBLASLT_FUNCTIONS(RINGMASTER_CUBLASLT_BIND)
#undef RINGMASTER_CUBLASLT_BIND
  version_ = static_cast<int64_t>(functions_.GetVersion());
  if (!CanServe(version_)) {
    return absl::UnimplementedError(
        absl::StrCat(library.name(), " is cuBLAS version ", version_,
                     "; this program needs one from ", kOldestVersion, " to ",
                     CUBLAS_VER_MAJOR, ".x"));
  }
  return absl::OkStatus();
}

absl::Status CublasLtLibrary::ToStatus(cublasStatus_t result,
                                       std::string_view what) const {
  if (result == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                   functions_.GetStatusString(result));
  switch (result) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return absl::UnimplementedError(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_INVALID_VALUE:
      return absl::FailedPreconditionError(message);
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace ringmaster
