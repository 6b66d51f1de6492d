// TestCertificates: a small certificate authority for tests of TLS.
//
// Makes fresh keys and certificates (P-256, valid for an hour, for localhost,
// 127.0.0.1 and ::1) and writes them as PEM files.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_
#define RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_

#include <memory>
#include <string>

namespace ringmaster {

class TestCertificates {
 public:
  // Files go to `directory`, named after the authority's `name`. Ends the
  // process if anything fails.
  TestCertificates(std::string directory, std::string name);
  ~TestCertificates();

  [[nodiscard]] std::string ca_file() const;

  struct Files {
    std::string certificate;
    std::string key;
  };
  // A new key for `who` (a file name) and a certificate that this authority
  // signed.
  [[nodiscard]] Files Issue(const std::string& who) const;

 private:
  struct Authority;
  const std::string prefix_;
  std::unique_ptr<Authority> authority_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TESTING_TEST_CERTIFICATES_H_
