// The number of cores that this process may use. Linux only.
#ifndef RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
#define RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_

#include <optional>
#include <string_view>

namespace ringmaster {

// Returns the number that sched_getaffinity(2) allows, or as many as the quota
// of the control group (version 2) pays for, if that is fewer. At least 1.
[[nodiscard]] int UsableCores();

// Returns the number that sched_getaffinity(2) allows. At least 1.
[[nodiscard]] int AllowedCores();

// Returns the number of cores that a quota pays for; `cpu_max` is the content
// of a cpu.max: "200000 100000", "max 100000". Pure. nullopt if that sets no
// quota.
[[nodiscard]] std::optional<double> CoresPaidFor(std::string_view cpu_max);

// Returns as many of `cores` as a quota pays for, rounded up; all of them if
// `cpu_max` sets none. Pure.
[[nodiscard]] int CoresOfQuota(std::string_view cpu_max, int cores);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
