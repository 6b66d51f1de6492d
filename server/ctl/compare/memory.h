// The memory that a rank needs, and the batch that fits: from two short runs
// that compute, one with more samples than the other. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
#define RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// The memory that a process needs in one run and not in the next, by chance:
// memory that grows by less is taken as memory that does not grow.
inline constexpr double kMemoryNoiseBytes = 1 << 20;

// `few` and `more` are the results of two such runs of one mode. The first
// failure of the two is that of the result.
[[nodiscard]] MemoryResult MemoryFrom(const RunResult& few,
                                      const RunResult& more);

// Values of the workers alone; zeros without any.
struct Spread {
  double least = 0;
  double most = 0;
  double mean = 0;
};
[[nodiscard]] Spread SpreadOf(const MemoryResult& memory,
                              double RankMemory::*value);

// Samples that a worker can compute at once if each rank has `device_bytes`:
// those that fit on the worker that needs most. 0 if not even the rest of every
// rank fits; nothing if memory did not grow with the samples.
[[nodiscard]] std::optional<int64_t> LargestBatch(const MemoryResult& memory,
                                                  double device_bytes);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
