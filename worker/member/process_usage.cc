#include "worker/member/process_usage.h"

#include <sys/resource.h>

#include <fstream>

namespace ringmaster {

ProcessUsage UsageOfProcess() {
  ProcessUsage usage;
  usage.wire = WireTotalsSoFar();
  rusage used = {};
  // Fails only for a wrong argument.
  getrusage(RUSAGE_SELF, &used);
  usage.cpu_time = absl::DurationFromTimeval(used.ru_utime) +
                   absl::DurationFromTimeval(used.ru_stime);
  usage.peak_resident_bytes = int64_t{1024} * used.ru_maxrss;
  return usage;
}

void ForgetPeakMemory() {
  // proc(5): 5 resets the peak resident set size.
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace ringmaster
