// CertificateAuthority makes a private authority and the certificates that it signs:
// X.509 v3 (RFC 5280), keys on P-256, signed with ECDSA and SHA-256.
//
// A certificate says what its holder may do by a URI among its subject alternative
// names for each role, spiffe://DOMAIN/ringmaster/ROLE/NAME (SPIFFE ID, section 2;
// X.509-SVIDs have just one, which is what `ringctl pki` issues).
//
// Thread-compatible.
#ifndef RINGMASTER_COMMON_CREDENTIALS_AUTHORITY_H_
#define RINGMASTER_COMMON_CREDENTIALS_AUTHORITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

// In PEM; `key` is not encrypted.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

// The content of a certificate.
struct CertificateRequest {
  std::string name;
  // Each becomes a URI; none: it stands for a name only.
  std::vector<std::string> roles = {};
  // DNS names and addresses under which its holder is reached.
  std::vector<std::string> hosts = {};
  absl::Time begin;
  absl::Time end;
};

class CertificateAuthority {
 public:
  // A new one; its name is the domain of its SPIFFE IDs, too.
  [[nodiscard]] static absl::StatusOr<CertificateAuthority> Create(
      const std::string& name, absl::Time begin, absl::Time end);
  // One that was made before. INVALID_ARGUMENT: no certificate or key in PEM, one
  // that does not belong to the other, or no authority's.
  [[nodiscard]] static absl::StatusOr<CertificateAuthority> Load(
      const CertificateAndKey& pem);

  CertificateAuthority(CertificateAuthority&&) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) noexcept;
  ~CertificateAuthority();

  [[nodiscard]] absl::StatusOr<CertificateAndKey> pem() const;

  // A certificate for a new key. INVALID_ARGUMENT: a host is neither a DNS name nor
  // an address, or a name cannot be in a URI.
  [[nodiscard]] absl::StatusOr<CertificateAndKey> Issue(
      const CertificateRequest& request) const;

  // The certificate `old`, which this authority signed, for the same key and with
  // the same names, valid from `begin` for as long as it was. INVALID_ARGUMENT: it
  // is no certificate, or somebody else's.
  [[nodiscard]] absl::StatusOr<std::string> Renew(const std::string& old,
                                                  absl::Time begin) const;

 private:
  struct Impl;
  explicit CertificateAuthority(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_AUTHORITY_H_
