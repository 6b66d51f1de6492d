#include "worker/device/cuda/cupti_library.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_libraries.h"

namespace ringmaster {
namespace {

// Since CUDA 13 versions count like the toolkit's. Records grow at their end
// within a major version.
constexpr uint32_t kMajor = 10000;

}  // namespace

absl::StatusOr<CuptiLibrary> CuptiLibrary::Load() {
  CuptiLibrary library;
  RETURN_IF_ERROR(library.Bind());
  return library;
}

absl::Status CuptiLibrary::Bind() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CuptiNames()));
#define RINGMASTER_CUPTI_BIND(name) \
  RETURN_IF_ERROR(library.Find("cupti" #name, &functions_.name));
  RINGMASTER_CUPTI_FUNCTIONS(RINGMASTER_CUPTI_BIND)
#undef RINGMASTER_CUPTI_BIND
  RETURN_IF_ERROR(
      ToStatus(functions_.GetVersion(&version_), "cuptiGetVersion"));
  if (version_ / kMajor != CUPTI_API_VERSION / kMajor) {
    return absl::UnimplementedError(absl::StrCat(
        library.name(), " is CUPTI version ", version_, "; this program needs ",
        CUPTI_API_VERSION / kMajor, "xxxx"));
  }
  return absl::OkStatus();
}

absl::Status CuptiLibrary::ToStatus(CUptiResult result,
                                    std::string_view what) const {
  if (result == CUPTI_SUCCESS) return absl::OkStatus();
  const char* words = nullptr;
  if (functions_.GetResultString(result, &words) != CUPTI_SUCCESS ||
      words == nullptr) {
    words = "an unknown error";
  }
  const std::string message =
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ", words);
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace ringmaster
