#include "common/credentials/pem.h"

#include <openssl/err.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/credentials/authority.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

CertificateAndKey NewAuthority() {
  const absl::Time now = absl::Now();
  const auto authority =
      CertificateAuthority::Create("pem", now, now + absl::Hours(1));
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *authority->pem();
}

TEST(Pem, ReadsAllCertificatesOrNone) {
  const std::string first = NewAuthority().certificate;
  const std::string second = NewAuthority().certificate;
  EXPECT_EQ(ParseCertificates(first).size(), 1);
  EXPECT_EQ(ParseCertificates(first + second).size(), 2);
  EXPECT_TRUE(ParseCertificates("").empty());
  const std::string half = second.substr(0, second.size() / 2);
  EXPECT_TRUE(ParseCertificates(first + half).empty());
}

// A file that is being written ends anywhere.
TEST(Pem, ReadsNothingThatWasCutWithinACertificate) {
  const std::string first = NewAuthority().certificate;
  const std::string second = NewAuthority().certificate;
  for (size_t size = 1; size + 1 < second.size(); ++size) {
    EXPECT_TRUE(ParseCertificates(first + second.substr(0, size)).empty())
        << "after " << size << " bytes";
  }
  // The last line's end alone.
  const std::string all = first + second.substr(0, second.size() - 1);
  EXPECT_EQ(ParseCertificates(all).size(), 2);
  EXPECT_EQ(ParseCertificates(first + "an old one").size(), 1);
}

TEST(Pem, ReadsAKey) {
  const CertificateAndKey pem = NewAuthority();
  EXPECT_NE(ParseKey(pem.key), nullptr);
  EXPECT_EQ(ParseKey(pem.certificate), nullptr);
}

TEST(Pem, LeavesNoErrorsBehind) {
  const CertificateAndKey pem = NewAuthority();
  for (const std::string& text : {pem.certificate, pem.key, std::string("x")}) {
    (void)ParseCertificates(text);
    EXPECT_EQ(ERR_peek_error(), 0) << text;
    (void)ParseKey(text);
    EXPECT_EQ(ERR_peek_error(), 0) << text;
  }
}

}  // namespace
}  // namespace ringmaster
