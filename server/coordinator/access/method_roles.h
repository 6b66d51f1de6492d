// The coordinator's table of method x role.
// Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_
#define RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_

#include <span>

#include "common/access/access_control.h"

namespace ringmaster::coordinator {

// Every method that the coordinator serves.
[[nodiscard]] std::span<const MethodRoles> MethodTable();

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_
