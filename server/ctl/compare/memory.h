// The memory that a rank needs, and the largest batch that fits, from two short
// runs of which one computes more samples than the other. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
#define RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// Random variation of a process's memory between runs: growth below this counts
// as none.
inline constexpr double kMemoryNoiseBytes = 1 << 20;

// `few` and `more` are the results of two such runs of one mode. The result has
// the first failure of the two.
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
// those that fit on the worker that needs most. 0 if not even the part that
// does not depend on samples fits; nullopt if memory did not grow with the
// samples.
[[nodiscard]] std::optional<int64_t> LargestBatch(const MemoryResult& memory,
                                                  double device_bytes);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
