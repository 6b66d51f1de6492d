#include "common/machine/control_group.h"

#include <fstream>

namespace ringmaster {
namespace {

// The group's path as the namespace of the process shows it: "0::/a/b".
std::string PathOfGroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

std::string ControlGroupLine(const std::string& file) {
  std::ifstream stream("/sys/fs/cgroup" + PathOfGroup() + "/" + file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace ringmaster
