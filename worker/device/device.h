// Device is the place where a worker computes: the CPU, or a GPU (cuda/).
//
// Thread-safety: immutable.
// Ownership: owns its allocator, so it must outlive every Arena made with it.
#ifndef RINGMASTER_WORKER_DEVICE_DEVICE_H_
#define RINGMASTER_WORKER_DEVICE_DEVICE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/tensor/allocator.h"

namespace ringmaster {

enum class DeviceKind { kCpu, kCuda };

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  // For people: "cpu (AMD EPYC 9654, 2 processors)".
  virtual const std::string& name() const = 0;
  // Memory that kernels of this device can use.
  virtual Allocator& allocator() = 0;
};

// Opens the device called `name`: "cpu".
//   INVALID_ARGUMENT  there is no such device; the message lists those that
//                     this build knows
[[nodiscard]] absl::StatusOr<std::unique_ptr<Device>> OpenDevice(
    std::string_view name);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_DEVICE_H_
