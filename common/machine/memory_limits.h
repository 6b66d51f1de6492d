// The memory that there is for the processes of this host or container. Linux
// only.
#ifndef RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
#define RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_

#include <cstdint>

namespace ringmaster {

// Returns the bytes that they may take together: the least of the host's memory
// and the control group's limit. -1: unknown. Not the memory that is free at
// the moment, which other processes keep changing.
[[nodiscard]] int64_t MemoryLimitBytes();

// Returns the bytes that they can still take without swapping: the least of the
// host's available memory and the control group's limit. -1: unknown. Other
// processes keep changing it.
[[nodiscard]] int64_t AvailableMemoryBytes();

// Returns the bytes that the host has swapped out. -1: unknown.
[[nodiscard]] int64_t SwapUsedBytes();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
