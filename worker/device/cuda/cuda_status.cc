#include "worker/device/cuda/cuda_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

// Marks a status whose cause took the context with it.
constexpr char kContextLostUrl[] = "ringmaster/cuda-context-lost";

bool TakesContext(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorNoKernelImageForDevice:
      return absl::StatusCode::kFailedPrecondition;
    case cudaErrorInvalidDevice:
      return absl::StatusCode::kInvalidArgument;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

// "cuda:1", or nothing where there is no device to ask for.
std::string CurrentDevice() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return "";
  return absl::StrCat(", cuda:", device);
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, std::string_view what,
                        std::source_location where) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string_view file = where.file_name();
  const std::string_view base = file.substr(file.rfind('/') + 1);
  absl::Status status(
      CodeOf(error),
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                   cudaGetErrorName(error), ": ", cudaGetErrorString(error),
                   " (", absl::string_view(base.data(), base.size()), ":",
                   where.line(), CurrentDevice(), ")"));
  if (TakesContext(error)) status.SetPayload(kContextLostUrl, absl::Cord("1"));
  return status;
}

bool IsContextLost(const absl::Status& status) {
  return status.GetPayload(kContextLostUrl).has_value();
}

}  // namespace ringmaster
