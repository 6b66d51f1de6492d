#include "common/text/instant.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(InstantTest, HasDateTimeAndOffset) {
  const absl::Time time = absl::FromUnixMillis(1'767'355'384'123);
  EXPECT_EQ(FormatInstant(time, absl::UTCTimeZone()),
            "2026-01-02T12:03:04.123+00:00");
  EXPECT_EQ(FormatInstant(time, absl::FixedTimeZone(-(3 * 60 + 30) * 60)),
            "2026-01-02T08:33:04.123-03:30");
}

}  // namespace
}  // namespace ringmaster
