// How much memory there is for the processes of this host or container. Linux
// only.
#ifndef RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
#define RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_

#include <cstdint>

namespace ringmaster {

// What they may take together, in bytes: the least of the host's memory and the
// control group's limit. -1: unknown. Not what is free at the moment, which
// other processes are changing meanwhile.
[[nodiscard]] int64_t MemoryLimitBytes();

// What they can still take without swapping, in bytes: the least of the host's
// available memory and the control group's limit. -1: unknown. Others are
// changing it meanwhile.
[[nodiscard]] int64_t AvailableMemoryBytes();

// What the host has swapped out, in bytes. -1: unknown.
[[nodiscard]] int64_t SwapUsedBytes();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_MEMORY_LIMITS_H_
