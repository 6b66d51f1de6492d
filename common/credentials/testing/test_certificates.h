// TestCertificates: a small certificate authority for tests of TLS.
//
// Makes fresh keys and certificates (for localhost, 127.0.0.1 and ::1) and writes
// them as PEM files.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_
#define RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/credentials/authority.h"

namespace ringmaster {

class TestCertificates {
 public:
  // Files go to `directory`, named after the authority's `name`. Ends the
  // process if anything fails.
  TestCertificates(std::string directory, std::string name);

  [[nodiscard]] std::string ca_file() const;

  struct Files {
    std::string certificate;
    std::string key;
  };
  // A new key for `who` (also in the file names) and a certificate that this
  // authority signed, which began a minute ago and lasts a month unless given.
  [[nodiscard]] Files Issue(const std::string& who,
                            std::vector<std::string> roles = {},
                            std::optional<absl::Duration> lifetime = {}) const;

 private:
  const std::string prefix_;
  const CertificateAuthority authority_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_
