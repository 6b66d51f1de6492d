// Who calls the coordinator's services: the gRPC side of access_control.h.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/coordinator/access/access_control.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/rpc/refusal_log.h"

namespace grpc {
class AuthMetadataProcessor;
class CallbackServerContext;
}  // namespace grpc

namespace ringmaster::coordinator {

// Admits calls before any handler hears of them; every service of the server is
// covered, health and reflection too. Those that are refused go to `refusals`.
[[nodiscard]] std::shared_ptr<grpc::AuthMetadataProcessor> MakeAdmission(
    std::shared_ptr<const AccessControl> access,
    std::shared_ptr<RefusalLog> refusals);

// What the caller showed, and where it is: "10.0.0.7", or "unix".
[[nodiscard]] Credentials CredentialsOf(
    const grpc::CallbackServerContext& context);
[[nodiscard]] std::string AddressOf(const grpc::CallbackServerContext& context);

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

// PERMISSION_DENIED unless the caller may have a session in `role`.
[[nodiscard]] absl::Status CheckSessionRole(const Identity& caller,
                                            v1::Role role);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_CALLER_H_
