#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "common/config/version.h"

namespace ringmaster {
namespace {

struct ProcessStat {
  double cpu_seconds = 0;
  double start_seconds = 0;  // since the system's start
  double resident_bytes = 0;
};

// Fields 14, 15, 22 and 24 of /proc/self/stat; see proc(5). The name, field 2,
// is in parentheses and may have blanks.
std::optional<ProcessStat> ReadProcessStat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  ProcessStat stat;
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number != 14 && number != 15 && number != 22 && number != 24) continue;
    std::istringstream text(field);
    double value = 0;
    if (!(text >> value)) return std::nullopt;
    if (number <= 15) stat.cpu_seconds += value / ticks;
    if (number == 22) stat.start_seconds = value / ticks;
    if (number != 24) continue;
    stat.resident_bytes = value * page;
    return stat;
  }
  return std::nullopt;
}

// When the system started, in seconds since the epoch.
std::optional<double> BootSeconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator it("/proc/self/fd", error);
  double count = 0;
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    ++count;
  }
  if (error) return std::nullopt;
  return count - 1;  // the directory's own
}

// "0.1.0" of "ringmaster 0.1.0".
std::string Version() {
  return std::string(kVersion.substr(kVersion.rfind(' ') + 1));
}

}  // namespace

void AddProcessMetrics(std::string_view program, MetricPage& page) {
  page.AddGauge("ringmaster_build_info", "What runs here; always 1.", 1,
                {{"program", std::string(program)}, {"version", Version()}});
  if (const auto stat = ReadProcessStat()) {
    page.AddCounter("process_cpu_seconds_total",
                    "Time of the processor that the process used, in seconds.",
                    stat->cpu_seconds);
    page.AddGauge("process_resident_memory_bytes",
                  "Memory that the process has resident, in bytes.",
                  stat->resident_bytes);
    if (const auto boot = BootSeconds()) {
      page.AddGauge("process_start_time_seconds",
                    "When the process started, in seconds since the epoch.",
                    *boot + stat->start_seconds);
    }
  }
  if (const auto descriptors = OpenDescriptors()) {
    page.AddGauge("process_open_fds", "Descriptors that the process has open.",
                  *descriptors);
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    page.AddGauge("process_max_fds",
                  "Descriptors that the process may have open.",
                  static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace ringmaster
