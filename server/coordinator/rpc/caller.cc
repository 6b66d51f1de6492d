#include "server/coordinator/rpc/caller.h"

#include <grpcpp/server_context.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/admission.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {
namespace {

// The role that a session as a `role` takes.
Role RoleFor(v1::Role role) {
  return role == v1::ROLE_WORKER ? Role::kWorker : Role::kServer;
}

}  // namespace

std::optional<Identity> IdentityOf(const grpc::CallbackServerContext& context,
                                   const AccessControl* access) {
  if (access == nullptr) return std::nullopt;
  return access->Identify(CredentialsOf(context)).value_or(Identity());
}

Caller CallerOf(const grpc::CallbackServerContext& context,
                const std::optional<Identity>& identity) {
  return CallerOf(AddressOf(context), identity);
}

Caller CallerOf(std::string address, const std::optional<Identity>& identity) {
  Caller caller;
  caller.address = std::move(address);
  if (!identity.has_value()) return caller;
  caller.name = identity->name;
  caller.roles = NamesOf(identity->roles);
  caller.owns_all = identity->roles.Has(Role::kOperator);
  return caller;
}

Caller CallerOf(const grpc::CallbackServerContext& context,
                const AccessControl* access) {
  return CallerOf(context, IdentityOf(context, access));
}

absl::Status CheckSessionRole(const Identity& caller, v1::Role role) {
  if (caller.roles.Has(RoleFor(role))) return absl::OkStatus();
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          caller.name, " (", NamesOf(caller.roles), ") may not join as a ",
          std::string(NameOf(role)), ", which takes the role ",
          std::string(NameOf(RoleFor(role))))),
      reason::kPermissionDenied);
}

}  // namespace ringmaster::coordinator
