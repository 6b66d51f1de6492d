#include "worker/device/cuda/cudnn_library.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_libraries.h"

namespace ringmaster {
namespace {

constexpr int64_t kMajor = 10000;

// cuDNN adds functions, and removes none, within a major version.
bool CanServe(int64_t loaded_version) {
  return loaded_version >= CudnnLibrary::kOldestVersion &&
         loaded_version / kMajor == CUDNN_MAJOR;
}

// cuDNN's codes are in groups of a thousand, of which the first is the group
// itself.
constexpr int kGroup = 1000;

}  // namespace

absl::StatusOr<CudnnLibrary> CudnnLibrary::Load() {
  CudnnLibrary library;
  RETURN_IF_ERROR(library.Bind());
  return library;
}

absl::Status CudnnLibrary::Bind() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CudnnNames()));
#define RINGMASTER_CUDNN_BIND(name) \
  RETURN_IF_ERROR(library.Find("cudnn" #name, &functions_.name));
  RINGMASTER_CUDNN_FUNCTIONS(RINGMASTER_CUDNN_BIND)
#undef RINGMASTER_CUDNN_BIND
  version_ = static_cast<int64_t>(functions_.GetVersion());
  if (!CanServe(version_)) {
    return absl::UnimplementedError(absl::StrCat(
        library.name(), " is cuDNN version ", version_, "; this program needs ",
        CUDNN_MAJOR, ".x from ", kOldestVersion));
  }
  return absl::OkStatus();
}

absl::Status CudnnLibrary::ToStatus(cudnnStatus_t result,
                                    std::string_view what) const {
  if (result == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> words = {};
  functions_.GetLastErrorString(words.data(), words.size());
  std::replace(words.begin(), words.end(), '\n', ' ');
  const std::string message =
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                   functions_.GetErrorString(result),
                   words[0] == '\0' ? "" : ": ", words.data());
  switch (result / kGroup * kGroup) {
    case CUDNN_STATUS_NOT_SUPPORTED:
      return absl::UnimplementedError(message);
    case CUDNN_STATUS_BAD_PARAM:
      return absl::FailedPreconditionError(message);
    default:
      break;
  }
  if (result == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      result == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace ringmaster
