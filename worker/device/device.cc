#include "worker/device/device.h"

#include <fstream>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

// The model name of the first processor, as Linux tells it.
std::string ProcessorModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown model";
}

class CpuDevice final : public Device {
 public:
  CpuDevice()
      : name_(absl::StrCat("cpu (", ProcessorModel(), ", ",
                           std::thread::hardware_concurrency(),
                           " processors)")) {}

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  const std::string& name() const override { return name_; }
  Allocator& allocator() override { return allocator_; }

 private:
  std::string name_;
  HeapAllocator allocator_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(std::string_view name) {
  if (name == "cpu") return std::make_unique<CpuDevice>();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no device \"", absl::string_view(name.data(), name.size()),
      "\"; this build knows cpu"));
}

}  // namespace ringmaster
