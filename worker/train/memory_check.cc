#include "worker/train/memory_check.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster {
namespace {

std::string InMegabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

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

// Of this process's control group (version 2), as seen from inside a container.
std::optional<int64_t> LimitOfControlGroup() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t bytes = 0;
  if (file >> bytes) return bytes;
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

absl::Status CheckMemory(const std::vector<MemoryNeed>& needs,
                         int ranks_on_host, int64_t limit_bytes) {
  int64_t total = 0;
  std::string parts;
  for (const MemoryNeed& need : needs) {
    total += need.bytes;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", need.name, " ",
                    InMegabytes(need.bytes));
  }
  if (limit_bytes < 0 || total <= limit_bytes / ranks_on_host)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model does not fit in memory: a rank needs ", InMegabytes(total),
      " (", parts, "), and ", ranks_on_host,
      ranks_on_host == 1 ? " rank has " : " ranks share ",
      InMegabytes(limit_bytes),
      " on this host; take a smaller model, micro_batch or number of workers "
      "a host"));
}

}  // namespace ringmaster
