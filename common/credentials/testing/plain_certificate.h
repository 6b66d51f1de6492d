// Certificates without extensions, and with serial number 0, as simple scripts make
// them: nothing but the signature tells which of two keys of one subject signed one.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TESTING_PLAIN_CERTIFICATE_H_
#define RINGMASTER_COMMON_CREDENTIALS_TESTING_PLAIN_CERTIFICATE_H_

#include <string>

#include "absl/time/time.h"
#include "common/credentials/authority.h"
#include "common/credentials/pem.h"

namespace ringmaster {

struct PlainRequest {
  std::string name;
  absl::Time begin;
  absl::Time end;
  // As "serverAuth": an extension after all.
  std::string extended_key_usage = {};
  // Null: it signs itself.
  const CertificateAndKey* issuer = nullptr;
};

// Ends the process if anything fails.
[[nodiscard]] CertificateAndKey MakePlainCertificate(
    const PlainRequest& request,
    KeyPtr key = {EVP_EC_gen("P-256"), &EVP_PKEY_free});

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TESTING_PLAIN_CERTIFICATE_H_
