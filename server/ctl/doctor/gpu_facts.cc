// Gathers the facts of gpu.h.
#include <array>
#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/machine/cuda_libraries.h"
#include "common/machine/shared_library.h"
#include "common/status/status_macros.h"
#include "server/ctl/doctor/gpu.h"

namespace ringmaster::ctl {
namespace {

// The driver's interface (cuda.h), of which a build without the toolkit has no
// header; it is stable.
using Result = int;
using DeviceHandle = int;
struct Uuid {
  std::array<unsigned char, 16> bytes;
};
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

struct Driver {
  Result (*init)(unsigned flags) = nullptr;
  Result (*version)(int* version) = nullptr;
  Result (*count)(int* count) = nullptr;
  Result (*get)(DeviceHandle* device, int ordinal) = nullptr;
  Result (*name)(char* name, int bytes, DeviceHandle device) = nullptr;
  Result (*uuid)(Uuid* uuid, DeviceHandle device) = nullptr;
  Result (*bus)(char* name, int bytes, DeviceHandle device) = nullptr;
  Result (*memory)(size_t* bytes, DeviceHandle device) = nullptr;
  Result (*attribute)(int* value, int attribute, DeviceHandle device) = nullptr;
  Result (*peer)(int* can, DeviceHandle device, DeviceHandle other) = nullptr;
  Result (*error)(Result result, const char** text) = nullptr;

  [[nodiscard]] std::string ErrorText(Result result) const {
    const char* text = nullptr;
    if (error(result, &text) != 0 || text == nullptr)
      return absl::StrCat("error ", result);
    return text;
  }
};

absl::StatusOr<Driver> LoadDriver() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load({"libcuda.so.1"}));
  Driver driver;
  RETURN_IF_ERROR(library.Find("cuInit", &driver.init));
  RETURN_IF_ERROR(library.Find("cuDriverGetVersion", &driver.version));
  RETURN_IF_ERROR(library.Find("cuDeviceGetCount", &driver.count));
  RETURN_IF_ERROR(library.Find("cuDeviceGet", &driver.get));
  RETURN_IF_ERROR(library.Find("cuDeviceGetName", &driver.name));
  // The second one tells the parts of a divided GPU apart.
  if (!library.Find("cuDeviceGetUuid_v2", &driver.uuid).ok())
    RETURN_IF_ERROR(library.Find("cuDeviceGetUuid", &driver.uuid));
  RETURN_IF_ERROR(library.Find("cuDeviceGetPCIBusId", &driver.bus));
  RETURN_IF_ERROR(library.Find("cuDeviceTotalMem_v2", &driver.memory));
  RETURN_IF_ERROR(library.Find("cuDeviceGetAttribute", &driver.attribute));
  RETURN_IF_ERROR(library.Find("cuDeviceCanAccessPeer", &driver.peer));
  RETURN_IF_ERROR(library.Find("cuGetErrorString", &driver.error));
  return driver;
}

// "GPU-8c9f5a2e-....", as nvidia-smi writes it.
std::string ToText(const Uuid& uuid) {
  std::string hex = absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size()));
  for (const size_t at : {8, 13, 18, 23}) hex.insert(at, "-");
  return "GPU-" + hex;
}

// Properties that cannot be read stay as they are: not known.
Gpu Describe(const Driver& driver, DeviceHandle device) {
  Gpu gpu;
  std::array<char, 256> text{};
  constexpr int kBytes = 255;
  if (driver.name(text.data(), kBytes, device) == 0) gpu.name = text.data();
  if (driver.bus(text.data(), kBytes, device) == 0) gpu.bus = text.data();
  Uuid uuid{};
  if (driver.uuid(&uuid, device) == 0) gpu.uuid = ToText(uuid);
  size_t bytes = 0;
  if (driver.memory(&bytes, device) == 0)
    gpu.memory_bytes = static_cast<int64_t>(bytes);
  int major = 0;
  int minor = 0;
  if (driver.attribute(&major, kCapabilityMajor, device) == 0 &&
      driver.attribute(&minor, kCapabilityMinor, device) == 0) {
    gpu.capability = major * 10 + minor;
  }
  return gpu;
}

int CountPeerPairs(const Driver& driver,
                   const std::vector<DeviceHandle>& devices) {
  int pairs = 0;
  for (size_t a = 0; a < devices.size(); ++a) {
    for (size_t b = a + 1; b < devices.size(); ++b) {
      int there = 0;
      int back = 0;
      pairs += driver.peer(&there, devices[a], devices[b]) == 0 &&
               driver.peer(&back, devices[b], devices[a]) == 0 && there != 0 &&
               back != 0;
    }
  }
  return pairs;
}

void ListGpus(const Driver& driver, GpuFacts& facts) {
  Result result = driver.init(0);
  int count = 0;
  if (result == 0) result = driver.count(&count);
  if (result != 0) {
    facts.gpus_error = driver.ErrorText(result);
    return;
  }
  std::vector<DeviceHandle> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceHandle device = 0;
    if (driver.get(&device, ordinal) != 0) continue;
    devices.push_back(device);
    facts.gpus.push_back(Describe(driver, device));
  }
  facts.peer_pairs = CountPeerPairs(driver, devices);
}

absl::StatusOr<int> NcclVersion() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CudaLibraryPlaces({"libnccl.so.2"})));
  Result (*get_version)(int*) = nullptr;
  RETURN_IF_ERROR(library.Find("ncclGetVersion", &get_version));
  int version = 0;
  if (get_version(&version) != 0)
    return absl::UnavailableError("ncclGetVersion failed");
  return version;
}

absl::StatusOr<int> CudnnVersion() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CudaLibraryPlaces({"libcudnn.so.9"})));
  size_t (*get_version)() = nullptr;
  RETURN_IF_ERROR(library.Find("cudnnGetVersion", &get_version));
  return static_cast<int>(get_version());
}

absl::StatusOr<int> CublasLtVersion() {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Load(CudaLibraryPlaces(
                       {"libcublasLt.so.13", "libcublasLt.so.12"})));
  size_t (*get_version)() = nullptr;
  RETURN_IF_ERROR(library.Find("cublasLtGetVersion", &get_version));
  return static_cast<int>(get_version());
}

LoadedLibrary ToLoaded(const absl::StatusOr<int>& version) {
  if (version.ok()) return {.version = *version, .error = {}};
  return {.version = 0, .error = std::string(version.status().message())};
}

}  // namespace

GpuFacts GatherGpuFacts(bool is_wanted) {
  GpuFacts facts;
  facts.is_wanted = is_wanted;
  facts.build = BuiltCuda();
  const absl::StatusOr<Driver> driver = LoadDriver();
  if (driver.ok()) {
    const Result result = driver->version(&facts.driver.version);
    if (result != 0) facts.driver = {0, driver->ErrorText(result)};
    ListGpus(*driver, facts);
  } else {
    facts.driver.error = std::string(driver.status().message());
  }
  if (is_wanted || facts.build.has_value()) {
    facts.nccl = ToLoaded(NcclVersion());
    facts.cudnn = ToLoaded(CudnnVersion());
    facts.cublaslt = ToLoaded(CublasLtVersion());
  }
  return facts;
}

}  // namespace ringmaster::ctl
