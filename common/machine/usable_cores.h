// The number of cores that this process may use. Linux only.
#ifndef RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
#define RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_

#include <optional>
#include <string_view>

namespace ringmaster {

// Returns the number that sched_getaffinity(2) allows, or the quota of the
// control group (version 2) in cores, if that is lower. At least 1.
[[nodiscard]] int UsableCores();

// Returns the number that sched_getaffinity(2) allows. At least 1.
[[nodiscard]] int AllowedCores();

// Returns a CPU quota as a number of cores; `cpu_max` is the content of a
// cpu.max: "200000 100000", "max 100000". nullopt if it sets no quota. Pure.
[[nodiscard]] std::optional<double> CoresPaidFor(std::string_view cpu_max);

// Returns the quota in cores, rounded up, at most `cores`; `cores` if `cpu_max`
// sets none. Pure.
[[nodiscard]] int CoresOfQuota(std::string_view cpu_max, int cores);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
