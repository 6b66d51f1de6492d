// CheckMemory refuses a job that this host's memory cannot hold, before
// anything of it is touched, and says what would need how much.
//
// Memory is only reserved when it is allocated; without this check a model that
// is too large would be found out by the kernel, which kills a process without
// a word.
#ifndef RINGMASTER_WORKER_TRAIN_MEMORY_CHECK_H_
#define RINGMASTER_WORKER_TRAIN_MEMORY_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster {

// A part of what a rank needs: "parameters", 497.8 MB.
struct MemoryNeed {
  std::string name;
  int64_t bytes = 0;
};

// RESOURCE_EXHAUSTED if the needs, times `ranks_on_host` that have them alike,
// add up to more than `limit_bytes`; with all figures. An unknown limit (-1) is
// never too small.
[[nodiscard]] absl::Status CheckMemory(const std::vector<MemoryNeed>& needs,
                                       int ranks_on_host, int64_t limit_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_MEMORY_CHECK_H_
