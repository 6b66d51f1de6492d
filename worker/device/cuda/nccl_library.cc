#include "worker/device/cuda/nccl_library.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/machine/shared_library.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_libraries.h"

namespace ringmaster {
namespace {

// NCCL adds functions and fields, and removes none, within a major version; an
// older library reads as much of a configuration as it knows.
bool CanServe(int loaded_version) {
  return loaded_version >= NcclLibrary::kOldestVersion &&
         loaded_version / 10000 == NCCL_MAJOR;
}

// Returns NCCL's last error in one line; empty if NCCL says nothing.
std::string LastError(const NcclFunctions& functions) {
  const char* words = functions.GetLastError(nullptr);
  if (words == nullptr) return "";
  return std::string(absl::StripAsciiWhitespace(
      absl::StrReplaceAll(words, {{"\n", " "}, {"\r", ""}})));
}

}  // namespace

absl::StatusOr<NcclLibrary> NcclLibrary::Load() {
  NcclLibrary nccl;
  RETURN_IF_ERROR(nccl.Bind());
  return nccl;
}

absl::Status NcclLibrary::Bind() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(NcclNames()));
#define RINGMASTER_NCCL_BIND(name) \
  RETURN_IF_ERROR(library.Find("nccl" #name, &functions_.name));
  RINGMASTER_NCCL_FUNCTIONS(RINGMASTER_NCCL_BIND)
#undef RINGMASTER_NCCL_BIND
  RETURN_IF_ERROR(ToStatus(functions_.GetVersion(&version_), "ncclGetVersion"));
  if (!CanServe(version_)) {
    return absl::UnimplementedError(absl::StrCat(
        "NCCL (", library.name(), ") is of version code ", version_,
        "; this program needs ", NCCL_MAJOR, ".x from ", kOldestVersion));
  }
  return absl::OkStatus();
}

absl::Status NcclLibrary::ToStatus(ncclResult_t result,
                                   std::string_view what) const {
  if (result == ncclSuccess) return absl::OkStatus();
  std::string message =
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                   functions_.GetErrorString(result));
  const std::string last = LastError(functions_);
  if (!last.empty()) absl::StrAppend(&message, ": ", last);
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
