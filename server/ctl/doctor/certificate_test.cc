#include "server/ctl/doctor/certificate.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

TEST(CertificateFindingTest, WarnsTwoWeeksBeforeTheEnd) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14
  const absl::Time begin = now - absl::Hours(24 * 300);
  EXPECT_EQ(
      CertificateFinding({"w.pem", begin, now + absl::Hours(24 * 15)}, now),
      Good("certificate", "w.pem expires on 2023-11-29, in 15 days"));
  const Finding soon =
      CertificateFinding({"w.pem", begin, now + absl::Hours(25)}, now);
  EXPECT_EQ(soon.level, Level::kWarning);
  EXPECT_EQ(soon.what, "w.pem expires on 2023-11-15, in 1 day");
}

}  // namespace
}  // namespace ringmaster::ctl
