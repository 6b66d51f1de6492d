// CheckMemory refuses a job that does not fit this host's memory, before any of
// that memory is touched, and says how much each part would need.
//
// Memory is only reserved when it is allocated; without this check the kernel
// would discover that a model is too large, and kill a process without a
// message.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_MEMORY_CHECK_H_
#define RINGMASTER_WORKER_TRAIN_STATE_MEMORY_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {

// A part of what a rank needs: "parameters", 497.8 MB.
struct MemoryNeed {
  std::string name;
  int64_t bytes = 0;
};

// The sizes that decide what a rank of a job needs.
struct RankSizes {
  int64_t arena_bytes = 0;
  int64_t activation_bytes = 0;  // 0: not known
  int ranks_on_host = 1;
  int world_size = 1;
  // An accelerator has its own memory for gradients and activations.
  bool has_accelerator = false;
};

[[nodiscard]] std::vector<MemoryNeed> MemoryNeedsOf(const ProgramConfig& config,
                                                    const RankSizes& sizes);

// "4.5 MB (parameters 3.0 MB, activations 1.5 MB)".
[[nodiscard]] std::string MemoryText(const std::vector<MemoryNeed>& needs);

// RESOURCE_EXHAUSTED if the needs, times `ranks_on_host` that have them alike,
// add up to more than `limit_bytes`; with all figures. An unknown limit (-1) is
// never too small.
[[nodiscard]] absl::Status CheckMemory(const std::vector<MemoryNeed>& needs,
                                       int ranks_on_host, int64_t limit_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_MEMORY_CHECK_H_
