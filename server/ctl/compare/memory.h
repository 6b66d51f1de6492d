// What a rank needs of memory, and which batch fits: of two short runs that
// compute, one with more samples than the other. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
#define RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// The samples that each worker of `run` computes at once.
[[nodiscard]] int64_t SamplesAtOnce(const RunResult& run);

// `few` and `more` are the results of two such runs of one mode. The first
// failure of the two is that of the result.
[[nodiscard]] MemoryResult MemoryFrom(const RunResult& few,
                                      const RunResult& more);

// Samples that a worker can compute at once if each rank has `device_bytes`:
// those that fit on the rank that needs most. Nothing if not even the rest of
// it fits, or if memory did not grow with the samples.
[[nodiscard]] std::optional<int64_t> LargestBatch(const MemoryResult& memory,
                                                  double device_bytes);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_MEMORY_H_
