#include "common/credentials/peer_trust.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/config/read_file.h"
#include "common/credentials/testing/plain_certificate.h"
#include "common/credentials/testing/test_certificates.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

class PeerTrustTest : public testing::Test {
 protected:
  PeerTrustTest() {
    UseAuthorities(Of(ours_) + Of(theirs_));
    auto watch = TlsWatch::Open(options_, absl::Now());
    EXPECT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    trust_ = std::make_unique<PeerTrust>(watch_);
  }

  static std::string Of(const TestCertificates& authority) {
    return *ReadTextFile(authority.ca_file());
  }

  void UseAuthorities(const std::string& pem) const {
    std::ofstream(options_.tls_ca_file) << pem;
  }

  // An authority that is missing at one look may be about to be written.
  void RemoveTheirs() const {
    UseAuthorities(Of(ours_));
    for (int i = 0; i < 2; ++i) watch_->Poll(absl::Now());
  }

  const std::string directory_ = testing::TempDir();
  const TestCertificates ours_{directory_, "ours"};
  const TestCertificates theirs_{directory_, "theirs"};
  const TestCertificates others_{directory_, "others"};
  const TestCertificates::Files own_ = ours_.Issue("server");
  const CredentialsOptions options_ = {.tls_ca_file = directory_ + "/ca.pem",
                                       .tls_cert_file = own_.certificate,
                                       .tls_key_file = own_.key};
  // The second ended before it was looked at.
  const std::string ours_peer_ = *ReadTextFile(ours_.Issue("a").certificate);
  const std::string expired_peer_ =
      *ReadTextFile(ours_.Issue("b", {}, absl::Seconds(30)).certificate);
  const std::string their_peer_ = *ReadTextFile(theirs_.Issue("c").certificate);
  std::shared_ptr<TlsWatch> watch_;
  std::unique_ptr<PeerTrust> trust_;
};

TEST_F(PeerTrustTest, FollowsTheCaFile) {
  EXPECT_TRUE(trust_->Trusts(their_peer_));
  RemoveTheirs();
  EXPECT_FALSE(trust_->Trusts(their_peer_));
  EXPECT_TRUE(trust_->Trusts(ours_peer_));
  UseAuthorities(Of(theirs_) + Of(ours_));
  watch_->Poll(absl::Now());
  EXPECT_TRUE(trust_->Trusts(their_peer_));
}

// Written in place, and looked at halfway.
TEST_F(PeerTrustTest, AHalfWrittenCaFileEndsNoTrust) {
  const std::string renewed = Of(ours_) + Of(theirs_) + Of(others_);
  for (size_t size = 0; size < renewed.size(); ++size) {
    UseAuthorities(renewed.substr(0, size));
    watch_->Poll(absl::Now());
    EXPECT_TRUE(trust_->Trusts(ours_peer_)) << size;
    EXPECT_TRUE(trust_->Trusts(their_peer_)) << size;
  }
  UseAuthorities(renewed);
  watch_->Poll(absl::Now());
  EXPECT_TRUE(trust_->Trusts(their_peer_));
  EXPECT_EQ(watch_->files()->authorities.size(), 3u);
}

TEST_F(PeerTrustTest, AConnectionMayOutliveItsCertificate) {
  RemoveTheirs();
  EXPECT_TRUE(trust_->Trusts(expired_peer_));
}

// Both keys of an authority that got a new one, in either order.
TEST_F(PeerTrustTest, AnExpiredKeyOfOneSubjectIsInNobodysWay) {
  const absl::Time now = absl::Now();
  const absl::Time begin = now - absl::Hours(48);
  const CertificateAndKey old = MakePlainCertificate(
      {.name = "root", .begin = begin, .end = now - absl::Hours(24)});
  const CertificateAndKey next = MakePlainCertificate(
      {.name = "root", .begin = begin, .end = now + absl::Hours(24)});
  const auto issue = [&](absl::Time end, const std::string& usage) {
    return MakePlainCertificate({.name = "peer",
                                 .begin = begin,
                                 .end = end,
                                 .extended_key_usage = usage,
                                 .issuer = &next})
        .certificate;
  };
  const std::string others = Of(ours_) + Of(theirs_);
  for (const std::string& roots : {old.certificate + next.certificate,
                                   next.certificate + old.certificate}) {
    UseAuthorities(others + roots);
    watch_->Poll(now);
    EXPECT_TRUE(trust_->Trusts(issue(now + absl::Hours(1), "")));
    EXPECT_TRUE(trust_->Trusts(issue(now - absl::Hours(1), "clientAuth")));
    // A handshake lets no server in as a client.
    EXPECT_FALSE(trust_->Trusts(issue(now + absl::Hours(1), "serverAuth")));
  }
}

TEST_F(PeerTrustTest, AChainThatIsTooLongIsNotTrusted) {
  std::string chain = ours_peer_ + ours_peer_;
  for (int i = 1; i < 10; ++i) chain += Of(theirs_);
  EXPECT_TRUE(trust_->Trusts(chain));
  EXPECT_FALSE(trust_->Trusts(chain + Of(theirs_)));
  RemoveTheirs();
  EXPECT_TRUE(trust_->Trusts(chain));
  EXPECT_FALSE(trust_->Trusts(chain + Of(theirs_)));
}

TEST_F(PeerTrustTest, TextThatIsNoCertificateIsNotTrusted) {
  RemoveTheirs();
  EXPECT_FALSE(trust_->Trusts(""));
  EXPECT_FALSE(trust_->Trusts("x"));
}

}  // namespace
}  // namespace ringmaster
