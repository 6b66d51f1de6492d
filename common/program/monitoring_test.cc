#include "common/program/monitoring.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/credentials/testing/plain_certificate.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/credentials/tls_watch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CertificateMetricsTest, SayWhenEachCertificateEnds) {
  const TestCertificates ours(testing::TempDir(), "ours");
  const TestCertificates::Files files = ours.Issue("worker");
  {
    const auto watch = FollowTlsFiles({.tls_ca_file = ours.ca_file(),
                                       .tls_cert_file = files.certificate,
                                       .tls_key_file = files.key});
    ASSERT_TRUE(watch.ok()) << watch.status();
    MetricPage page;
    AddCertificateMetrics(page);
    // In a month; from 2024 to 2033.
    for (const auto& [file, subject] :
         {std::pair(files.certificate, "CN=worker"),
          std::pair(ours.ca_file(), "CN=ours")}) {
      for (const char* const what : {"expiry", "start"}) {
        EXPECT_THAT(
            page.Text(),
            ContainsRegex(absl::StrCat(
                "ringmaster_certificate_", what, "_timestamp_seconds\\{file=\"",
                file, "\",subject=\"", subject, "\"\\} 1[7-9][0-9]+\n")));
      }
    }
  }
  MetricPage page;
  AddCertificateMetrics(page);
  EXPECT_THAT(page.families(), IsEmpty());
}

// Prometheus takes no page that says one thing twice.
TEST(CertificateMetricsTest, OfOneSubjectTheFirstToEnd) {
  const absl::Time now = absl::Now();
  const auto authority = [&](int days) {
    return MakePlainCertificate({.name = "one",
                                 .begin = now,
                                 .end = now + absl::Hours(24) * days})
        .certificate;
  };
  const std::string ca_file = testing::TempDir() + "/both.pem";
  const std::string soon = authority(40);
  std::ofstream(ca_file) << authority(80) << soon << authority(90);
  const auto watch = FollowTlsFiles({.tls_ca_file = ca_file});
  ASSERT_TRUE(watch.ok()) << watch.status();
  MetricPage page;
  AddCertificateMetrics(page);
  const std::string name =
      absl::StrCat("ringmaster_certificate_expiry_timestamp_seconds{file=\"",
                   ca_file, "\",subject=\"CN=one\"} ");
  const std::string text = page.Text();
  EXPECT_EQ(text.find(name), text.rfind(name));
  EXPECT_THAT(
      text, HasSubstr(absl::StrCat(
                name, absl::ToUnixSeconds(now + absl::Hours(24) * 40), "\n")));
}

}  // namespace
}  // namespace ringmaster
