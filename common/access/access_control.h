// AccessControl: who a caller of a server is, by its certificate or token, and whether
// it may make a call.
//
//   certificate  a URI among its subject alternative names,
//                spiffe://DOMAIN/ringmaster/ROLE/NAME (SPIFFE ID, section 2); it may
//                have one for each of several roles. Or its subject is in the access
//                file. Where a trust domain is given, a URI of another one is refused.
//   token        "authorization: Bearer TOKEN" (RFC 6750, section 2.1), whose digest
//                is in the access file. It comes before the certificate.
//
// A server has one table of method x role: whoever has none of a method's roles is
// refused, and a method that is not in the table is nobody's.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_ACCESS_ACCESS_CONTROL_H_
#define RINGMASTER_COMMON_ACCESS_ACCESS_CONTROL_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/access/access_file.h"
#include "common/access/role.h"
#include "common/credentials/peer_trust.h"
#include "common/sync/mutex.h"

namespace ringmaster {

// A call's credentials. The certificate has been verified.
struct Credentials {
  bool has_certificate = false;
  std::vector<std::string> uris;
  // As RFC 2253 writes it.
  std::string subject;
  // The certificate, and those that came with it, in PEM.
  std::string chain = {};
  // The value of "authorization"; empty: none.
  std::string authorization;
};

struct MethodRoles {
  // As gRPC names it on the wire.
  std::string_view method;
  RoleSet roles;
};

// The roles that may call `method`, by `table`; none: nobody may.
[[nodiscard]] RoleSet RolesFor(std::span<const MethodRoles> table,
                               std::string_view method);

class AccessControl {
 public:
  // `methods` must outlive this. Without `rules`, the server has no access file: only
  // URIs give roles. `trust_domain` is the DOMAIN of those; "": every one. By `trust`,
  // certificates count only while an authority of the CA file signs them; null: those
  // of a handshake always do.
  AccessControl(std::span<const MethodRoles> methods,
                std::optional<AccessRules> rules, std::string trust_domain = "",
                std::shared_ptr<const PeerTrust> trust = nullptr)
      : methods_(methods),
        trust_domain_(std::move(trust_domain)),
        trust_(std::move(trust)),
        has_file_(rules.has_value()),
        rules_(std::make_shared<const AccessRules>(
            std::move(rules).value_or(AccessRules()))) {}

  // One line that says what to do:
  //   UNAUTHENTICATED  no credentials, a certificate without a role, a token that is not
  //   known or is revoked
  //   UNAVAILABLE      the certificate's authority is not trusted any more; whoever
  //   connects again needs another one
  [[nodiscard]] absl::StatusOr<Identity> Identify(
      const Credentials& credentials) const EXCLUDES(mutex_);

  // The same, and then PERMISSION_DENIED unless it may call `method`.
  [[nodiscard]] absl::StatusOr<Identity> Admit(const Credentials& credentials,
                                               std::string_view method) const
      EXCLUDES(mutex_);

  // Calls that come later go by these.
  void Replace(AccessRules rules) EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::shared_ptr<const AccessRules> rules() const
      EXCLUDES(mutex_);

  const std::span<const MethodRoles> methods_;
  const std::string trust_domain_;
  const std::shared_ptr<const PeerTrust> trust_;
  const bool has_file_;

  mutable Mutex mutex_;
  std::shared_ptr<const AccessRules> rules_ GUARDED_BY(mutex_);
};

// OK iff `text` is a trust domain (SPIFFE ID, section 2.1): 1 to 255 lower-case letters,
// digits, '.', '-' and '_'.
[[nodiscard]] absl::Status CheckTrustDomain(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_ACCESS_CONTROL_H_
