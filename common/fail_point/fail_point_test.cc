#include "common/fail_point/fail_point.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/fail_point/environment.h"
#include "common/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

absl::Status Send() {
  RETURN_IF_ERROR(FAIL_POINT("test.send"));
  return absl::OkStatus();
}
absl::Status SendElsewhere() { return FAIL_POINT("test.send"); }
absl::Status Receive() { return FAIL_POINT("test.receive"); }
absl::Status PassedOnlyOnce() { return FAIL_POINT("test.passed_only_once"); }

class FailPointTest : public testing::Test {
 protected:
  ~FailPointTest() override { FailPoint::DisarmAll(); }
};

TEST_F(FailPointTest, PassesWhenNothingIsArmed) { EXPECT_TRUE(Send().ok()); }

TEST_F(FailPointTest, ErrorNamesThePoint) {
  ASSERT_TRUE(Send().ok());
  FailPoint::Arm("test.send", FailPoint::Action::kError);
  EXPECT_EQ(Send(), absl::UnavailableError("fail point test.send"));
  EXPECT_TRUE(Receive().ok());
}

TEST_F(FailPointTest, CanBeArmedBeforeThePointIsFirstPassed) {
  FailPoint::Arm("test.passed_only_once", FailPoint::Action::kError);
  EXPECT_FALSE(PassedOnlyOnce().ok());
}

TEST_F(FailPointTest, ActsFromTheGivenPassOn) {
  FailPoint::Arm("test.send", FailPoint::Action::kError, 3);
  EXPECT_TRUE(Send().ok());
  EXPECT_TRUE(SendElsewhere().ok());  // The same name, so the same count.
  EXPECT_FALSE(Send().ok());
  EXPECT_FALSE(SendElsewhere().ok());
  EXPECT_EQ(FailPoint::PassCount("test.send"), 4);
}

TEST_F(FailPointTest, DisarmEndsIt) {
  FailPoint::Arm("test.send", FailPoint::Action::kError);
  FailPoint::Arm("test.receive", FailPoint::Action::kError);
  FailPoint::Disarm("test.send");
  EXPECT_TRUE(Send().ok());
  EXPECT_FALSE(Receive().ok());
  FailPoint::DisarmAll();
  EXPECT_TRUE(Receive().ok());
  EXPECT_EQ(FailPoint::PassCount("test.receive"), 0);
}

TEST_F(FailPointTest, HangBlocksUntilDisarmed) {
  FailPoint::Arm("test.send", FailPoint::Action::kHang);
  std::atomic<bool> has_passed{false};
  std::thread hanging([&] {
    EXPECT_TRUE(Send().ok());
    has_passed = true;
  });
  while (FailPoint::HangingCount("test.send") == 0) std::this_thread::yield();
  EXPECT_FALSE(has_passed);
  FailPoint::Disarm("test.send");
  hanging.join();
  EXPECT_TRUE(has_passed);
  EXPECT_EQ(FailPoint::HangingCount("test.send"), 0);
}

TEST_F(FailPointTest, ArmingAgainReleasesAHang) {
  FailPoint::Arm("test.send", FailPoint::Action::kHang);
  std::thread hanging([] { EXPECT_TRUE(Send().ok()); });
  while (FailPoint::HangingCount("test.send") == 0) std::this_thread::yield();
  FailPoint::Arm("test.send", FailPoint::Action::kOff);
  hanging.join();
}

TEST_F(FailPointTest, NamesListsEachPointOnce) {
  ASSERT_TRUE(Send().ok());
  ASSERT_TRUE(SendElsewhere().ok());
  const std::vector<std::string> names = FailPoint::Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "test.send"), 1);
}

TEST_F(FailPointTest, TextArmsSeveralPoints) {
  ASSERT_TRUE(
      FailPoint::ArmFromText("test.send=error@2; test.receive=error;").ok());
  EXPECT_TRUE(Send().ok());
  EXPECT_FALSE(Send().ok());
  EXPECT_FALSE(Receive().ok());
  ASSERT_TRUE(FailPoint::ArmFromText("test.send=off").ok());
  EXPECT_TRUE(Send().ok());
  EXPECT_TRUE(FailPoint::ArmFromText("").ok());
}

TEST_F(FailPointTest, MalformedTextIsNamedAndArmsNothing) {
  for (const char* const malformed :
       {"test.send", "=error", "test.send=explode", "test.send=error@0",
        "test.send=error@x", "test.send=error@"}) {
    const absl::Status status =
        FailPoint::ArmFromText(std::string("test.receive=error;") + malformed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << malformed;
    EXPECT_THAT(std::string(status.message()), HasSubstr(malformed));
    EXPECT_TRUE(Receive().ok());
  }
}

TEST_F(FailPointTest, EnvironmentArmsPoints) {
  ASSERT_EQ(setenv(kFailPointsVariable, "test.send=error", 1), 0);
  ASSERT_TRUE(FailPoint::ArmFromEnvironment().ok());
  EXPECT_FALSE(Send().ok());
  ASSERT_EQ(unsetenv(kFailPointsVariable), 0);
  FailPoint::DisarmAll();
  ASSERT_TRUE(FailPoint::ArmFromEnvironment().ok());
  EXPECT_TRUE(Send().ok());
}

TEST(FailPointDeathTest, CrashEndsTheProcessBySigkill) {
  EXPECT_EXIT(
      {
        FailPoint::Arm("test.send", FailPoint::Action::kCrash, 2);
        if (!Send().ok()) _exit(1);
        (void)Send();
        _exit(2);
      },
      testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace ringmaster
