#include "common/access/refusal_log.h"

#include "absl/time/time.h"
#include "common/clock/testing/fake_clock.h"
#include "common/logging/testing/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RefusalLogTest, WritesOneLineASecondAndCountsTheOthers) {
  FakeClock clock;
  RefusalLog refusals(clock);
  LogCapture log;
  for (int i = 0; i < 4; ++i)
    refusals.Add("/a/B", absl::PermissionDeniedError("no"));
  clock.Advance(absl::Seconds(1));
  refusals.Add("/a/C", absl::PermissionDeniedError("never"));
  EXPECT_THAT(log.lines(),
              ElementsAre(AllOf(HasSubstr("W access.refused method=/a/B"),
                                HasSubstr("error=no others=0")),
                          AllOf(HasSubstr("method=/a/C"),
                                HasSubstr("error=never others=3"))));
}

TEST(RefusalLogTest, OtherThingsThanCallsAreRefusedToo) {
  FakeClock clock;
  RefusalLog refusals(clock, "session.refused", "host");
  LogCapture log;
  refusals.Add("10.0.0.7", absl::InvalidArgumentError("no"));
  EXPECT_THAT(
      log.lines(),
      ElementsAre(HasSubstr("W session.refused host=10.0.0.7 error=no")));
}

}  // namespace
}  // namespace ringmaster
