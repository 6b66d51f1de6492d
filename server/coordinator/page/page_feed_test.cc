#include "server/coordinator/page/page_feed.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock/testing/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/page/testing/test_coordinator.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCancelled[] = "JOB_STATE_CANCELLED";

class PageFeedTest : public ::testing::Test {
 protected:
  TestCoordinator coordinator_;
  FakeClock clock_;
  PageFeed feed_{coordinator_.runtime(), "", clock_};
};

TEST_F(PageFeedTest, MakesAJobsTextOncePerInterval) {
  const std::string id = coordinator_.Submit();
  const absl::StatusOr<std::string> first = feed_.JobJson(id);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*first, Not(HasSubstr(kCancelled)));
  coordinator_.Cancel(id);
  EXPECT_EQ(feed_.JobJson(id), first);
  clock_.Advance(kLookInterval);
  EXPECT_THAT(*feed_.JobJson(id), HasSubstr(kCancelled));
}

TEST_F(PageFeedTest, AJobThatWasNotThereIsFoundOnceItIs) {
  EXPECT_EQ(feed_.JobJson("waits").status().code(),
            absl::StatusCode::kNotFound);
  const std::string id = coordinator_.Submit();
  EXPECT_EQ(feed_.JobJson("waits").status().code(),
            absl::StatusCode::kNotFound);
  clock_.Advance(kLookInterval);
  EXPECT_THAT(*feed_.JobJson("waits"), HasSubstr(id));
}

TEST_F(PageFeedTest, WaitsForTheFirstStatusAndEndsWithTheFeed) {
  const auto status = feed_.Status(MonotonicTime::InfiniteFuture());
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(status->status().coordinator().version(), "test");
  // The second call has the same, and copies no events for it.
  EXPECT_EQ(feed_.Status(clock_.Now()), status);
  feed_.Close();
  EXPECT_EQ(feed_.Status(MonotonicTime::InfiniteFuture()), nullptr);
}

}  // namespace
}  // namespace ringmaster::coordinator
