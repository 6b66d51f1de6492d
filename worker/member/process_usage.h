// The machine's resources that this process has used so far.
#ifndef RINGMASTER_WORKER_MEMBER_PROCESS_USAGE_H_
#define RINGMASTER_WORKER_MEMBER_PROCESS_USAGE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/transport/wire_totals.h"

namespace ringmaster {

struct ProcessUsage {
  WireTotals wire = {};
  absl::Duration cpu_time;  // of all its threads
  // Most memory at once, shared one too, since ForgetPeakMemory or the start.
  int64_t peak_resident_bytes = 0;
};

// Takes about a microsecond. Thread-safe.
[[nodiscard]] ProcessUsage UsageOfProcess();

// Resets the peak to what is resident now: processes outlive jobs. If the
// kernel does not allow that, the peak stays that of the process's life.
void ForgetPeakMemory();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_PROCESS_USAGE_H_
