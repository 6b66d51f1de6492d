#include "common/machine/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "common/machine/control_group.h"

namespace ringmaster {
namespace {

// A line of /proc/meminfo: "MemTotal:", ...
std::optional<int64_t> MemoryOfHost(std::string_view line) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  int64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == line) return kibibytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

std::optional<int64_t> LimitOfControlGroup() {
  int64_t bytes = 0;
  if (absl::SimpleAtoi(ControlGroupLine("memory.max"), &bytes)) return bytes;
  return std::nullopt;  // no such file, or "max"
}

int64_t LeastOf(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a.has_value()) return b.value_or(-1);
  return std::min(*a, b.value_or(*a));
}

}  // namespace

int64_t MemoryLimitBytes() {
  return LeastOf(MemoryOfHost("MemTotal:"), LimitOfControlGroup());
}

int64_t AvailableMemoryBytes() {
  return LeastOf(MemoryOfHost("MemAvailable:"), LimitOfControlGroup());
}

int64_t SwapUsedBytes() {
  const std::optional<int64_t> total = MemoryOfHost("SwapTotal:");
  const std::optional<int64_t> free = MemoryOfHost("SwapFree:");
  return total.has_value() && free.has_value() ? *total - *free : -1;
}

}  // namespace ringmaster
