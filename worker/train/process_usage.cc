#include "worker/train/process_usage.h"

#include <sys/resource.h>

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

}  // namespace ringmaster
