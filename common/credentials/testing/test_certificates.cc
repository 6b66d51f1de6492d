#include "common/credentials/testing/test_certificates.h"

#include <fstream>
#include <utility>

#include "absl/time/clock.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

// Beyond the time in which their end is warned of.
constexpr absl::Duration kLifetime = absl::Hours(30 * 24);

CertificateAuthority Make(const std::string& name) {
  const absl::Time now = absl::Now();
  absl::StatusOr<CertificateAuthority> authority = CertificateAuthority::Create(
      name, now - absl::Minutes(1), now + kLifetime);
  RM_CHECK(authority.ok(), authority.status().ToString());
  return *std::move(authority);
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  RM_CHECK(out.good(), path);
}

}  // namespace

TestCertificates::TestCertificates(std::string directory, std::string name)
    : prefix_(std::move(directory) + "/" + name), authority_(Make(name)) {
  WriteFile(ca_file(), authority_.pem()->certificate);
}

std::string TestCertificates::ca_file() const { return prefix_ + "-ca.pem"; }

TestCertificates::Files TestCertificates::Issue(
    const std::string& who, std::vector<std::string> roles,
    std::optional<absl::Duration> lifetime) const {
  const Files files = {.certificate = prefix_ + "-" + who + ".pem",
                       .key = prefix_ + "-" + who + ".key"};
  const absl::Time begin = absl::Now() - absl::Minutes(1);
  const absl::StatusOr<CertificateAndKey> issued =
      authority_.Issue({.name = who,
                        .roles = std::move(roles),
                        .hosts = {"localhost", "127.0.0.1", "::1"},
                        .begin = begin,
                        .end = begin + lifetime.value_or(kLifetime)});
  RM_CHECK(issued.ok(), issued.status().ToString());
  WriteFile(files.certificate, issued->certificate);
  WriteFile(files.key, issued->key);
  return files;
}

}  // namespace ringmaster
