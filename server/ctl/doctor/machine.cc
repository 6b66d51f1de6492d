#include "server/ctl/doctor/machine.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/machine/control_group.h"
#include "common/machine/memory_limits.h"
#include "common/machine/usable_cores.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kLeastMemoryBytes = 512 * kMebibyte;
constexpr int64_t kNotedSwapBytes = 256 * kMebibyte;
constexpr int64_t kLeastOpenFiles = 1024;
constexpr int64_t kLeastLockedBytes = 64 * kMebibyte;

std::optional<Limit> LimitOf(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  const auto known = [](rlim_t value) -> std::optional<int64_t> {
    if (value == RLIM_INFINITY) return std::nullopt;
    return static_cast<int64_t>(value);
  };
  return Limit{known(limit.rlim_cur), known(limit.rlim_max)};
}

// The directories /sys/devices/system/node/nodeN.
int NumaNodes() {
  std::error_code error;
  int nodes = 0;
  for (std::filesystem::directory_iterator
           entry("/sys/devices/system/node", error),
       end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    nodes += name.starts_with("node") &&
             name.find_first_not_of("0123456789", 4) == std::string::npos;
  }
  return nodes > 0 ? nodes : -1;
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding CoresFinding(const MachineFacts& facts) {
  if (facts.cores <= 0)
    return NotKnown("cores", "the system does not tell which are allowed");
  std::string what = absl::StrCat(facts.cores);
  if (facts.numa_nodes > 1)
    absl::StrAppend(&what, ", in ", facts.numa_nodes, " NUMA nodes");
  const std::optional<double> paid = CoresPaidFor(facts.cpu_quota);
  if (!paid.has_value()) return Good("cores", what);
  absl::StrAppend(
      &what,
      absl::StrFormat("; the control group's quota pays for %.3g", *paid));
  if (*paid >= 1) return Good("cores", what);
  return Warn("cores", what,
              "a process that has used up its quota stands still until the "
              "next period, and looks frozen to the others",
              "raise the container's CPU limit to a core or more, or the "
              "coordinator's --failure_budget");
}

Finding MemoryFinding(const MachineFacts& facts) {
  if (facts.memory_bytes < 0 || facts.available_bytes < 0)
    return NotKnown("memory", "the system does not tell how much there is");
  const std::string what =
      absl::StrCat(FormatBytes(facts.available_bytes), " available of ",
                   FormatBytes(facts.memory_bytes));
  if (facts.available_bytes >= kLeastMemoryBytes) return Good("memory", what);
  return Warn("memory", what,
              "a job that does not fit is refused, or ended by the kernel",
              "end what else takes memory here, or raise the container's "
              "limit");
}

Finding SwapFinding(const MachineFacts& facts) {
  if (facts.swap_used_bytes < 0)
    return NotKnown("swap", "the system does not tell");
  const std::string what =
      absl::StrCat(FormatBytes(facts.swap_used_bytes), " in use");
  if (facts.swap_used_bytes < kNotedSwapBytes) return Good("swap", what);
  return Warn("swap", what,
              "a process that waits for its pages holds up every other rank",
              "free memory on this machine, or turn swap off (swapoff -a)");
}

std::string ToText(const std::optional<int64_t>& limit) {
  return limit.has_value() ? absl::StrCat(*limit) : "unlimited";
}

Finding OpenFilesFinding(const MachineFacts& facts) {
  constexpr std::string_view kCheck = "open files";
  if (!facts.open_files.has_value())
    return NotKnown(kCheck, "the system does not tell the limit");
  const Limit& limit = *facts.open_files;
  const std::string what = absl::StrCat(
      "at most ", ToText(limit.soft), " (hard limit ", ToText(limit.hard), ")");
  if (limit.soft.value_or(kLeastOpenFiles) >= kLeastOpenFiles)
    return Good(kCheck, what);
  return Warn(kCheck, what,
              "each connection with a peer takes a descriptor, and shared "
              "memory another",
              "raise it: ulimit -n, LimitNOFILE= under systemd");
}

Finding LockedMemoryFinding(const MachineFacts& facts) {
  constexpr std::string_view kCheck = "locked memory";
  if (!facts.locked_memory.has_value())
    return NotKnown(kCheck, "the system does not tell the limit");
  const std::optional<int64_t>& soft = facts.locked_memory->soft;
  const std::string what = soft.has_value()
                               ? absl::StrCat("at most ", FormatBytes(*soft))
                               : "unlimited";
  if (!facts.is_cuda_wanted ||
      soft.value_or(kLeastLockedBytes) >= kLeastLockedBytes) {
    return Good(kCheck, what);
  }
  return Warn(kCheck, what,
              "NCCL registers memory with InfiniBand cards, which locks it",
              "allow it: ulimit -l unlimited, LimitMEMLOCK=infinity under "
              "systemd");
}

Finding ClockFinding(const MachineFacts& facts) {
  const std::string& source = facts.clock_source;
  if (source.empty())
    return NotKnown("clock source", "the system does not tell");
  if (source != "hpet" && source != "acpi_pm" && source != "jiffies")
    return Good("clock source", source);
  return Warn("clock source", source,
              "to read the time is a slow call to the kernel here, and every "
              "message is timed",
              "find out in the kernel's log why it does not trust the "
              "processor's counter (tsc)");
}

}  // namespace

MachineFacts GatherMachineFacts(bool is_cuda_wanted) {
  return {.cores = AllowedCores(),
          .numa_nodes = NumaNodes(),
          .cpu_quota = ControlGroupLine("cpu.max"),
          .memory_bytes = MemoryLimitBytes(),
          .available_bytes = AvailableMemoryBytes(),
          .swap_used_bytes = SwapUsedBytes(),
          .open_files = LimitOf(RLIMIT_NOFILE),
          .locked_memory = LimitOf(RLIMIT_MEMLOCK),
          .clock_source = FirstLine("/sys/devices/system/clocksource/"
                                    "clocksource0/current_clocksource"),
          .is_cuda_wanted = is_cuda_wanted};
}

std::vector<Finding> MachineFindings(const MachineFacts& facts) {
  return {CoresFinding(facts),        MemoryFinding(facts),
          SwapFinding(facts),         OpenFilesFinding(facts),
          LockedMemoryFinding(facts), ClockFinding(facts)};
}

}  // namespace ringmaster::ctl
