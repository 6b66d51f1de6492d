// AccessControl: who a caller is, by its certificate or token, and whether it may
// make a call.
//
//   certificate  a URI among its subject alternative names,
//                spiffe://DOMAIN/ringmaster/ROLE/NAME (SPIFFE ID, section 2); it may
//                have one for each of several roles. Or its subject is in the access
//                file. Where a trust domain is given, a URI of another one is refused.
//   token        "authorization: Bearer TOKEN" (RFC 6750, section 2.1), whose digest
//                is in the access file. It comes before the certificate.
//
// Thread-safe.
#ifndef RINGMASTER_SERVER_COORDINATOR_ACCESS_ACCESS_CONTROL_H_
#define RINGMASTER_SERVER_COORDINATOR_ACCESS_ACCESS_CONTROL_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sync/mutex.h"
#include "server/coordinator/access/access_file.h"
#include "server/coordinator/access/role.h"

namespace ringmaster::coordinator {

// A call's credentials. The certificate has been verified.
struct Credentials {
  bool has_certificate = false;
  std::vector<std::string> uris;
  // As RFC 2253 writes it.
  std::string subject;
  // The value of "authorization"; empty: none.
  std::string authorization;
};

class AccessControl {
 public:
  // `trust_domain` is the DOMAIN of URIs that give roles; "": every one.
  explicit AccessControl(AccessRules rules, std::string trust_domain = "")
      : trust_domain_(std::move(trust_domain)),
        rules_(std::make_shared<const AccessRules>(std::move(rules))) {}

  // UNAUTHENTICATED: no credentials, a certificate without a role, a token that is
  // not known or is revoked; one line that says what to do.
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

  const std::string trust_domain_;

  mutable Mutex mutex_;
  std::shared_ptr<const AccessRules> rules_ GUARDED_BY(mutex_);
};

// OK iff `text` is a trust domain (SPIFFE ID, section 2.1): 1 to 255 lower-case letters,
// digits, '.', '-' and '_'.
[[nodiscard]] absl::Status CheckTrustDomain(std::string_view text);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_ACCESS_ACCESS_CONTROL_H_
