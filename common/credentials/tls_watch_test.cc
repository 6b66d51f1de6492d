#include "common/credentials/tls_watch.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/config/read_file.h"
#include "common/credentials/authority.h"
#include "common/credentials/testing/plain_certificate.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/logging/testing/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As one who writes the file in place.
void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

class TlsWatchTest : public testing::Test {
 protected:
  TlsWatchTest() {
    Use(first_);
    auto watch = TlsWatch::Open(options_, absl::Now());
    EXPECT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
  }

  void Use(const TestCertificates::Files& files) const {
    Write(options_.tls_cert_file, *ReadTextFile(files.certificate));
    Write(options_.tls_key_file, *ReadTextFile(files.key));
  }

  // The lines of the log of three looks.
  std::vector<std::string> Look(absl::Time now = absl::Now()) {
    LogCapture log;
    for (int i = 0; i < 3; ++i) watch_->Poll(now);
    return log.lines();
  }

  const std::string directory_ = testing::TempDir();
  const TestCertificates ours_{directory_, "ours"};
  const TestCertificates theirs_{directory_, "theirs"};
  const TestCertificates::Files first_ = ours_.Issue("first");
  const TestCertificates::Files second_ = ours_.Issue("second");
  const CredentialsOptions options_ = {.tls_ca_file = directory_ + "/ca.pem",
                                       .tls_cert_file = directory_ + "/tls.pem",
                                       .tls_key_file = directory_ + "/tls.key"};
  const bool has_ca_ =
      (Write(options_.tls_ca_file, *ReadTextFile(ours_.ca_file())), true);
  std::unique_ptr<TlsWatch> watch_;
};

TEST_F(TlsWatchTest, ANewSetIsTakenOverWithOneLine) {
  const std::string serial = watch_->files()->serial;
  EXPECT_THAT(Look(), IsEmpty());
  Use(second_);
  EXPECT_THAT(Look(), ElementsAre(AllOf(HasSubstr(" I certificate.renewed"),
                                        HasSubstr(options_.tls_cert_file))));
  EXPECT_NE(watch_->files()->serial, serial);
  EXPECT_EQ(watch_->files()->key, *ReadTextFile(second_.key));
}

// Files are replaced one after the other.
TEST_F(TlsWatchTest, ASetThatIsThereForOneLookOnlyIsNoLine) {
  Write(options_.tls_cert_file, *ReadTextFile(second_.certificate));
  LogCapture log;
  watch_->Poll(absl::Now());
  EXPECT_THAT(log.lines(), IsEmpty());
  Write(options_.tls_key_file, *ReadTextFile(second_.key));
  watch_->Poll(absl::Now());
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("certificate.renewed")));
}

TEST_F(TlsWatchTest, ASetThatDoesNotCheckOutChangesNothingAndIsOneLine) {
  const TestCertificates::Files foreign = theirs_.Issue("foreign");
  const TestCertificates::Files expired =
      ours_.Issue("expired", {}, absl::Seconds(30));
  const std::string pem = *ReadTextFile(second_.certificate);
  const std::string first = *ReadTextFile(first_.certificate);
  const auto expect_refused = [&](const std::string& flag,
                                  const std::string& why) {
    EXPECT_THAT(Look(), ElementsAre(AllOf(HasSubstr(" E certificate.refused"),
                                          HasSubstr(flag + "="), HasSubstr(why),
                                          HasSubstr("stays in use"))));
    EXPECT_EQ(watch_->files()->certificate, first);
    Use(first_);
    (void)Look();
  };
  // Half of it.
  Write(options_.tls_cert_file, pem.substr(0, pem.size() / 2));
  expect_refused("--tls_cert_file", "is not a certificate in PEM");
  Write(options_.tls_cert_file, "");
  expect_refused("--tls_cert_file", "is empty");
  Write(options_.tls_cert_file, pem);
  expect_refused("--tls_key_file", "does not belong to");
  Use(expired);
  expect_refused("--tls_cert_file", "has expired on");
  Use(foreign);
  expect_refused("--tls_cert_file", "signed it, and one had");
  // The system's OpenSSL would refuse it at each handshake.
  const absl::Time now = absl::Now();
  const CertificateAndKey weak =
      MakePlainCertificate({.name = "weak",
                            .begin = now - absl::Minutes(1),
                            .end = now + absl::Hours(1)},
                           {EVP_RSA_gen(1024), &EVP_PKEY_free});
  Write(options_.tls_cert_file, weak.certificate);
  Write(options_.tls_key_file, weak.key);
  expect_refused("--tls_cert_file",
                 "TLS refuses it on this host: ee key too small");
  std::remove(options_.tls_key_file.c_str());
  expect_refused("--tls_key_file", "No such file");
  // The second of two authorities is cut short.
  const std::string ca = *ReadTextFile(theirs_.ca_file());
  Write(options_.tls_ca_file,
        *ReadTextFile(ours_.ca_file()) + ca.substr(0, ca.size() / 2));
  expect_refused("--tls_ca_file", "is not a certificate in PEM");
}

TEST_F(TlsWatchTest, AnAuthorityIsReplacedBesideTheOldOne) {
  const TestCertificates::Files foreign = theirs_.Issue("foreign");
  Write(options_.tls_ca_file,
        *ReadTextFile(ours_.ca_file()) + *ReadTextFile(theirs_.ca_file()));
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed")));
  Use(foreign);
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed")));
  EXPECT_TRUE(watch_->files()->is_signed_by_ca);
}

TEST_F(TlsWatchTest, AnAuthorityMayBeRenewedForItsKeyBesideItsOldCertificate) {
  const absl::Time now = absl::Now();
  const CertificateAuthority authority = *CertificateAuthority::Create(
      "aged", now - absl::Hours(60 * 24), now - absl::Hours(24));
  const std::string old = authority.pem()->certificate;
  const CertificateAndKey own = *authority.Issue({.name = "own",
                                                  .begin = now - absl::Hours(1),
                                                  .end = now + absl::Hours(1)});
  Write(options_.tls_ca_file,
        old + *authority.Renew(old, now - absl::Hours(24)));
  Write(options_.tls_cert_file, own.certificate);
  Write(options_.tls_key_file, own.key);
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed")));
  EXPECT_TRUE(watch_->files()->is_signed_by_ca);
  EXPECT_GT(watch_->files()->end, now);
}

TEST_F(TlsWatchTest, AClockThatDisagreesIsNamed) {
  const absl::Time early = absl::Now() - absl::Hours(24);
  EXPECT_THAT(
      std::string(TlsWatch::Open(options_, early).status().message()),
      AllOf(HasSubstr("is not valid before "),
            HasSubstr("this machine's clock says "), HasSubstr("right?")));
}

TEST_F(TlsWatchTest, ACertificateEndsWithTheFirstThatItDependsOn) {
  // TestCertificates' authority lasts a month.
  const TestCertificates::Files longer =
      ours_.Issue("longer", {}, absl::Hours(60 * 24));
  Use(longer);
  (void)Look();
  EXPECT_LT(watch_->files()->end, absl::Now() + absl::Hours(31 * 24));
}

TEST_F(TlsWatchTest, AnEndThatIsNearIsALineADay) {
  // As if it had been looked at on these days.
  const absl::Time end = watch_->files()->end;
  const auto days = [](int count) { return absl::Hours(24) * count; };
  // Its own, and its authority, which ends about then.
  const auto both = [this](const std::string& event, const std::string& own,
                           const std::string& authority) {
    return ElementsAre(
        AllOf(HasSubstr(event), HasSubstr("file=" + options_.tls_cert_file),
              HasSubstr("subject=\"CN=first\""), HasSubstr(own)),
        AllOf(HasSubstr(event), HasSubstr("file=" + options_.tls_ca_file),
              HasSubstr("subject=\"CN=ours\""), HasSubstr(authority)));
  };
  EXPECT_THAT(Look(end - days(40)), both(" E certificate.not_valid_yet",
                                         "clock right?", "clock right?"));
  EXPECT_THAT(Look(end - days(8)), IsEmpty());
  EXPECT_THAT(Look(end - absl::Minutes(30)),
              both(" W certificate.expires", "issue another one",
                   "add another authority to the file"));
  EXPECT_THAT(Look(end - absl::Minutes(1)), IsEmpty());
  // At once, and not only a day after the last line.
  EXPECT_THAT(Look(end), ElementsAre(HasSubstr(" E certificate.expired")));
  EXPECT_THAT(Look(end + absl::Minutes(2)),  // the authority, a minute later
              ElementsAre(HasSubstr(" E certificate.expired")));
  EXPECT_THAT(Look(end + absl::Hours(23)), IsEmpty());
  EXPECT_THAT(Look(end + days(1) + absl::Minutes(2)),
              both(" E certificate.expired", "issue another one",
                   "take it out of the file"));
}

// One that signed nothing of this process's own, and others' certificates.
TEST_F(TlsWatchTest, EveryAuthorityIsWarnedOf) {
  const absl::Time now = absl::Now();
  const CertificateAuthority other = *CertificateAuthority::Create(
      "other", now - absl::Hours(24 * 100), now + absl::Hours(24));
  const std::string others = other.pem()->certificate;
  Write(options_.tls_ca_file, *ReadTextFile(ours_.ca_file()) + others);
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed"),
                                  AllOf(HasSubstr(" W certificate.expires"),
                                        HasSubstr("subject=\"CN=other\""))));
  // A new certificate of its own says nothing new of the authorities.
  Use(second_);
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed")));
  // An authority with two certificates counts by the longer one.
  Write(options_.tls_ca_file,
        *ReadTextFile(ours_.ca_file()) + others + *other.Renew(others, now));
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed")));
}

// The way in which an authority gets a new key.
TEST_F(TlsWatchTest, AnOldKeyOfAnAuthorityIsWarnedOfBesideItsNewOne) {
  const absl::Time now = absl::Now();
  const absl::Time begin = now - absl::Hours(24 * 100);
  const CertificateAuthority old =
      *CertificateAuthority::Create("other", begin, now + absl::Hours(24));
  const CertificateAuthority next = *CertificateAuthority::Create(
      "other", begin, now + absl::Hours(24 * 300));
  Write(options_.tls_ca_file, *ReadTextFile(ours_.ca_file()) +
                                  old.pem()->certificate +
                                  next.pem()->certificate);
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed"),
                                  AllOf(HasSubstr(" W certificate.expires"),
                                        HasSubstr("subject=\"CN=other\""))));
}

TEST_F(TlsWatchTest, AuthoritiesOfOneSerialNumberAreWarnedOfOnceEach) {
  const absl::Time now = absl::Now();
  const auto authority = [&](const std::string& name, int days) {
    return MakePlainCertificate({.name = name,
                                 .begin = now - absl::Hours(24 * 100),
                                 .end = now + absl::Hours(24) * days})
        .certificate;
  };
  Write(options_.tls_ca_file,
        *ReadTextFile(ours_.ca_file()) + authority("soon", 1) +
            authority("late", 300) + authority("ended", -1));
  EXPECT_THAT(Look(), ElementsAre(HasSubstr("certificate.renewed"),
                                  AllOf(HasSubstr(" W certificate.expires"),
                                        HasSubstr("subject=\"CN=soon\"")),
                                  AllOf(HasSubstr(" E certificate.expired"),
                                        HasSubstr("subject=\"CN=ended\""))));
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_EQ(watch_->certificates().size(), 5u);
}

TEST(EndWarningTest, IsTwoWeeksOrAQuarterOfTheTime) {
  const absl::Time begin = absl::FromUnixSeconds(1'700'000'000);
  const absl::Duration day = absl::Hours(24);
  EXPECT_EQ(EndWarning(begin, begin + 365 * day), 14 * day);
  EXPECT_EQ(EndWarning(begin, begin + 28 * day), 7 * day);
  EXPECT_EQ(EndWarning(begin, begin + day), absl::Hours(6));
  EXPECT_EQ(EndWarning(absl::InfinitePast(), absl::InfiniteFuture()), 14 * day);
}

// A pipe that says nothing stands for a disk that hangs.
TEST_F(TlsWatchTest, ADiskThatHangsDoesNotHoldTheEnd) {
  auto followed = FollowTlsFiles(options_);
  ASSERT_TRUE(followed.ok()) << followed.status();
  std::remove(options_.tls_key_file.c_str());
  ASSERT_EQ(mkfifo(options_.tls_key_file.c_str(), 0600), 0);
  // Nobody can write to it before somebody reads.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  int writer = -1;
  while (writer < 0 && absl::Now() < deadline) {
    writer = open(options_.tls_key_file.c_str(), O_WRONLY | O_NONBLOCK);
    if (writer < 0) absl::SleepFor(absl::Milliseconds(5));
  }
  ASSERT_GE(writer, 0);
  const absl::Time begin = absl::Now();
  *followed = nullptr;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  std::remove(options_.tls_key_file.c_str());
  close(writer);
}

TEST_F(TlsWatchTest, TheSameFilesHaveOneWatch) {
  const auto one = FollowTlsFiles(options_);
  const auto two = FollowTlsFiles(options_);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(*one, *two);
  const std::vector<FollowedCertificate> all = FollowedCertificates();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].file, options_.tls_cert_file);
  EXPECT_EQ(all[0].end, (*one)->files()->end);
  EXPECT_TRUE(all[1].is_authority);
  EXPECT_EQ(all[1].file, options_.tls_ca_file);
  EXPECT_FALSE(OwnCertificateEndingSoon(absl::Now()).has_value());
  EXPECT_EQ(OwnCertificateEndingSoon(all[0].end - absl::Hours(1))->file,
            options_.tls_cert_file);
}

}  // namespace
}  // namespace ringmaster
