#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_status.h"

namespace ringmaster {
namespace {

// The oldest GPUs that this build has kernels for, see
// third_party/cuda:architectures.
constexpr int kOldestComputeCapability = 80;

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "GPU-8a56d1a2-...": the 16 bytes of a UUID in the usual groups.
std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    const bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    absl::StrAppendFormat(&text, "%s%02x", begins_group ? "-" : "",
                          static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// The words of CUDA alone do not say which driver is wanted.
absl::Status WhyNoDevice(cudaError_t error) {
  const absl::Status status = CudaStatus(error, "cudaGetDeviceCount");
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    return Annotate(
        status, driver == 0
                    ? "no NVIDIA driver is installed here (libcuda.so.1)"
                    : absl::StrCat("the NVIDIA driver is for CUDA ",
                                   VersionText(driver), ", this build needs ",
                                   VersionText(CUDART_VERSION)));
  }
  if (error == cudaErrorNoDevice)
    return Annotate(status,
                    "the driver shows no GPU (nvidia-smi -L, "
                    "CUDA_VISIBLE_DEVICES)");
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int ordinal) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return WhyNoDevice(error);
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no cuda:", ordinal, "; CUDA shows this process ",
                     count, count == 1 ? " device, cuda:0" : " devices"));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  RETURN_IF_ERROR(device->MakeCurrent());
  RETURN_IF_ERROR(device->ReadProperties());
  if (device->compute_capability_ < kOldestComputeCapability) {
    return absl::FailedPreconditionError(absl::StrCat(
        device->name_, " has compute capability ",
        device->compute_capability_ / 10, ".", device->compute_capability_ % 10,
        "; this build's kernels need ", kOldestComputeCapability / 10, ".",
        kOldestComputeCapability % 10, " or more"));
  }
  return device;
}

absl::Status CudaDevice::ReadProperties() {
  cudaDeviceProp properties;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, ordinal_),
                             "cudaGetDeviceProperties"));
  uuid_ = UuidText(properties.uuid);
  multiprocessors_ = properties.multiProcessorCount;
  compute_capability_ = properties.major * 10 + properties.minor;
  total_bytes_ = static_cast<int64_t>(properties.totalGlobalMem);
  int kilohertz = 0;
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, ordinal_) ==
      cudaSuccess) {
    clock_hertz_ = 1e3 * kilohertz;
  }
  name_ =
      absl::StrFormat("cuda:%d (%s, %.0f GiB, %s)", ordinal_, properties.name,
                      static_cast<double>(total_bytes_) / (1 << 30), uuid_);
  return absl::OkStatus();
}

absl::Status CudaDevice::MakeCurrent() const {
  return CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice");
}

absl::StatusOr<int64_t> CudaDevice::FreeBytes() const {
  RETURN_IF_ERROR(MakeCurrent());
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  return static_cast<int64_t>(free_bytes);
}

}  // namespace ringmaster
