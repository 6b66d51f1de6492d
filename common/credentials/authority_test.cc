#include "common/credentials/authority.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

const absl::Time kBegin = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kEnd = kBegin + absl::Hours(24 * 90);

CertificateAuthority NewAuthority() {
  return *CertificateAuthority::Create("example.org", kBegin,
                                       kBegin + absl::Hours(24 * 3650));
}

CertificateRequest Worker() {
  return {.name = "node-1",
          .roles = {"worker"},
          .hosts = {"node-1.example.org", "10.0.0.1", "::1"},
          .begin = kBegin,
          .end = kEnd};
}

TEST(AuthorityTest, IsLoadedAndSignsAsBefore) {
  const CertificateAuthority made = NewAuthority();
  const absl::StatusOr<CertificateAuthority> loaded =
      CertificateAuthority::Load(*made.pem());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::StatusOr<CertificateAndKey> issued = loaded->Issue(Worker());
  ASSERT_TRUE(issued.ok()) << issued.status();
  // The one that was made signed it, too, since it is the same.
  EXPECT_TRUE(made.Renew(issued->certificate, kEnd).ok());
}

TEST(AuthorityTest, RefusesWhatDoesNotBelongToIt) {
  const CertificateAuthority one = NewAuthority();
  const CertificateAuthority other = NewAuthority();
  const CertificateAndKey issued = *one.Issue(Worker());
  EXPECT_EQ(other.Renew(issued.certificate, kEnd).status().message(),
            "was signed by another authority");
  EXPECT_EQ(one.Renew("nonsense", kEnd).status().message(),
            "is not a certificate in PEM");
  EXPECT_EQ(
      CertificateAuthority::Load({one.pem()->certificate, other.pem()->key})
          .status()
          .message(),
      "has another key than the certificate");
  EXPECT_EQ(CertificateAuthority::Load(issued).status().message(),
            "is not the certificate of an authority");
}

// Commas and line ends would begin another name in the certificate.
TEST(AuthorityTest, NamesCannotSayMore) {
  const CertificateAuthority authority = NewAuthority();
  for (const char* const host : {"a,DNS:b", "a b", "", "a\nb"}) {
    CertificateRequest request = Worker();
    request.hosts = {host};
    EXPECT_THAT(std::string(authority.Issue(request).status().message()),
                HasSubstr("neither an address nor a DNS name"))
        << host;
  }
  for (const char* const name : {"a/../operator", "a,URI:b", ""}) {
    CertificateRequest request = Worker();
    request.name = name;
    EXPECT_EQ(authority.Issue(request).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace
}  // namespace ringmaster
