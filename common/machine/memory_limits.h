// The memory available to the processes of this host or container. Linux only.
#ifndef RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
#define RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_

#include <cstdint>

namespace ringmaster {

// Returns the bytes that they may use together: the smaller of the host's
// memory and the control group's limit. -1: unknown. This is not the memory
// that is free at the moment, which other processes keep changing.
[[nodiscard]] int64_t MemoryLimitBytes();

// Returns the bytes that they can still allocate without swapping: the smaller
// of the host's available memory and the control group's limit. -1: unknown.
// Other processes keep changing it.
[[nodiscard]] int64_t AvailableMemoryBytes();

// Returns the bytes that the host has swapped out. -1: unknown.
[[nodiscard]] int64_t SwapUsedBytes();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
