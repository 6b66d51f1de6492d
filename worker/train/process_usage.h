// What this process has used of its machine so far.
#ifndef RINGMASTER_WORKER_TRAIN_PROCESS_USAGE_H_
#define RINGMASTER_WORKER_TRAIN_PROCESS_USAGE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/transport/wire_totals.h"

namespace ringmaster {

struct ProcessUsage {
  WireTotals wire = {};
  absl::Duration cpu_time;          // of all its threads
  int64_t peak_resident_bytes = 0;  // memory, shared one too
};

// Takes about a microsecond. Thread-safe.
[[nodiscard]] ProcessUsage UsageOfProcess();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_PROCESS_USAGE_H_
