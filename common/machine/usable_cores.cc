#include "common/machine/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>

#include "common/machine/control_group.h"

namespace ringmaster {

int AllowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where there are more cores than it has room for.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::optional<double> CoresPaidFor(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period) || !(quota > 0) || !(period > 0))
    return std::nullopt;
  return quota / period;
}

int CoresOfQuota(std::string_view cpu_max, int cores) {
  const double paid = CoresPaidFor(cpu_max).value_or(cores);
  if (paid >= cores) return cores;
  const int whole = static_cast<int>(paid);
  return std::max(1, whole < paid ? whole + 1 : whole);
}

int UsableCores() {
  const int allowed = AllowedCores();
  return CoresOfQuota(ControlGroupLine("cpu.max"), allowed);
}

}  // namespace ringmaster
