// The one table of method x role: whoever has none of a method's roles is refused,
// and a method that is not in the table is nobody's.
// Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_
#define RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_

#include <span>
#include <string_view>

#include "server/coordinator/access/role.h"

namespace ringmaster::coordinator {

struct MethodRoles {
  // As gRPC names it on the wire.
  std::string_view method;
  RoleSet roles;
};

// Every method that the coordinator serves.
[[nodiscard]] std::span<const MethodRoles> MethodTable();

// The roles that may call `method`; none: nobody may.
[[nodiscard]] RoleSet RolesFor(std::string_view method);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_ACCESS_METHOD_ROLES_H_
