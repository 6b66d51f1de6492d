#include "worker/collective/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace ringmaster {
namespace {

int AllowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where there are more cores than it has room for.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// The path of this process's group, as its namespace shows it: "0::/a/b".
std::string ControlGroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

int CoresOfQuota(std::string_view cpu_max, int cores) {
  std::istringstream text{std::string(cpu_max)};
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period) || !(quota > 0) || !(period > 0)) return cores;
  const double paid = quota / period;
  if (paid >= cores) return cores;
  const int whole = static_cast<int>(paid);
  return std::max(1, whole < paid ? whole + 1 : whole);
}

int UsableCores() {
  const int allowed = AllowedCores();
  std::ifstream file("/sys/fs/cgroup" + ControlGroup() + "/cpu.max");
  std::string line;
  std::getline(file, line);
  return CoresOfQuota(line, allowed);
}

}  // namespace ringmaster
