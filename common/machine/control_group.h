// ControlGroupLine reads the control group (version 2) of this process. Linux
// only.
#ifndef RINGMASTER_COMMON_MACHINE_CONTROL_GROUP_H_
#define RINGMASTER_COMMON_MACHINE_CONTROL_GROUP_H_

#include <string>

namespace ringmaster {

// Returns the first line of a file of the group: "memory.max", "cpu.max". Empty
// where there is none: in the root group, and without version 2.
[[nodiscard]] std::string ControlGroupLine(const std::string& file);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_CONTROL_GROUP_H_
