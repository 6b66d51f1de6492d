#include "server/ctl/doctor/certificate.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14

FollowedCertificate Certificate(absl::Duration left) {
  return {.file = "w.pem",
          .begin = kNow - absl::Hours(24 * 300),
          .end = kNow + left};
}

TEST(CertificateFindingTest, WarnsTwoWeeksBeforeTheEnd) {
  EXPECT_EQ(CertificateFinding(Certificate(absl::Hours(24 * 15)), kNow),
            Good("certificate", "w.pem expires on 2023-11-29, in 15 days"));
  const Finding soon = CertificateFinding(Certificate(absl::Hours(25)), kNow);
  EXPECT_EQ(soon.level, Level::kWarning);
  EXPECT_EQ(soon.what, "w.pem expires on 2023-11-15, in 1 day");
}

TEST(CertificateFindingTest, AnAuthorityIsNamed) {
  FollowedCertificate authority = Certificate(absl::Hours(-1));
  authority.subject = "CN=ours";
  authority.is_authority = true;
  const Finding ended = CertificateFinding(authority, kNow);
  EXPECT_EQ(ended.level, Level::kWarning);
  EXPECT_EQ(ended.what, "w.pem (CN=ours) expired on 2023-11-14");
  EXPECT_THAT(ended.remedy, HasSubstr("add another authority to the file"));
}

}  // namespace
}  // namespace ringmaster::ctl
