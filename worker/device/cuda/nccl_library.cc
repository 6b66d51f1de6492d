#include "worker/device/cuda/nccl_library.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// NCCL adds functions and fields, and removes none, within a major version.
bool CanServe(int loaded_version) {
  return loaded_version >= NCCL_VERSION_CODE &&
         loaded_version / 10000 == NCCL_MAJOR;
}

}  // namespace

absl::StatusOr<NcclLibrary> NcclLibrary::Load() {
  ASSIGN_OR_RETURN(SharedLibrary library,
                   SharedLibrary::Load(
                       {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"}));
  NcclLibrary nccl(std::move(library));
  RETURN_IF_ERROR(nccl.Bind());
  return nccl;
}

absl::Status NcclLibrary::Bind() {
  RETURN_IF_ERROR(library_.Find("ncclGetVersion", &get_version_));
  RETURN_IF_ERROR(library_.Find("ncclGetErrorString", &get_error_string_));
  RETURN_IF_ERROR(ToStatus(get_version_(&version_), "ncclGetVersion"));
  if (!CanServe(version_)) {
    return absl::UnimplementedError(absl::StrCat(
        library_.name(), " is NCCL version code ", version_,
        "; this program needs ", NCCL_MAJOR, ".x from ", NCCL_VERSION_CODE));
  }
  return absl::OkStatus();
}

absl::Status NcclLibrary::ToStatus(ncclResult_t result,
                                   const char* what) const {
  if (result == ncclSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, ": ", get_error_string_(result));
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:
      return absl::UnavailableError(message);
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace ringmaster
