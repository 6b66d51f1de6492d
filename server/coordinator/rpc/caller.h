// Who calls the coordinator's services, as its core and its sessions know them.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/access/access_control.h"
#include "server/coordinator/core/state/types.h"

namespace grpc {
class CallbackServerContext;
}  // namespace grpc

namespace ringmaster::coordinator {

// The identity of a caller who was admitted; without a name if its credentials were
// taken away since. nullopt, if `access` is null: nobody is asked who they are, and
// everybody may do everything.
[[nodiscard]] std::optional<Identity> IdentityOf(
    const grpc::CallbackServerContext& context, const AccessControl* access);
// The same for the core.
[[nodiscard]] Caller CallerOf(const grpc::CallbackServerContext& context,
                              const std::optional<Identity>& identity);
[[nodiscard]] Caller CallerOf(const grpc::CallbackServerContext& context,
                              const AccessControl* access);
// The same of one whose request did not come by gRPC.
[[nodiscard]] Caller CallerOf(std::string address,
                              const std::optional<Identity>& identity);

// PERMISSION_DENIED unless the caller may have a session in `role`.
[[nodiscard]] absl::Status CheckSessionRole(const Identity& caller,
                                            v1::Role role);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_
