// How many cores this process may use. Linux only.
#ifndef RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
#define RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_

#include <optional>
#include <string_view>

namespace ringmaster {

// Those that sched_getaffinity(2) allows, or as many as the quota of its control
// group (version 2) pays for, if those are fewer. At least 1.
[[nodiscard]] int UsableCores();

// Those that sched_getaffinity(2) allows. At least 1.
[[nodiscard]] int AllowedCores();

// How many cores a quota pays for; `cpu_max` is the content of a cpu.max:
// "200000 100000", "max 100000". Pure. nullopt if it sets none.
[[nodiscard]] std::optional<double> CoresPaidFor(std::string_view cpu_max);

// Of `cores` as many as a quota pays for, rounded up; all of them if it sets none.
// Pure.
[[nodiscard]] int CoresOfQuota(std::string_view cpu_max, int cores);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_USABLE_CORES_H_
