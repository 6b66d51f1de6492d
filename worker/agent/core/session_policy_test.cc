#include "worker/agent/core/session_policy.h"

#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::agent {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kInitial = absl::Milliseconds(100);
constexpr absl::Duration kMax = absl::Seconds(1);

std::optional<Refusal> Refuse(absl::StatusCode code, std::string_view reason) {
  return PermanentRefusal(SessionDown{code, std::string(reason), "why"},
                          "head:7000", "w0", /*may_wait=*/false);
}

TEST(RetryDelayTest, DoublesUpToItsBound) {
  EXPECT_EQ(RetryDelay(0, kInitial, kMax, 1), absl::Milliseconds(100));
  EXPECT_EQ(RetryDelay(2, kInitial, kMax, 1), absl::Milliseconds(400));
  EXPECT_EQ(RetryDelay(4, kInitial, kMax, 1), kMax);
  EXPECT_EQ(RetryDelay(1'000'000, kInitial, kMax, 1), kMax);
}

TEST(RetryDelayTest, IsSpreadOverItsUpperHalf) {
  EXPECT_EQ(RetryDelay(0, kInitial, kMax, 0), absl::Milliseconds(50));
  EXPECT_EQ(RetryDelay(0, kInitial, kMax, 0.5), absl::Milliseconds(75));
  EXPECT_EQ(RetryDelay(0, kInitial, kMax, 7), absl::Milliseconds(100));
}

TEST(PermanentRefusalTest, AnotherSettingIsWaitedForOnceItHasFitted) {
  const SessionDown end = {absl::StatusCode::kInvalidArgument,
                           std::string(reason::kEncryptionMismatch), "why"};
  EXPECT_FALSE(
      PermanentRefusal(end, "head:7000", "w0", /*may_wait=*/true).has_value());
  const auto refusal =
      PermanentRefusal(end, "head:7000", "w0", /*may_wait=*/false);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ExitCode::kUsage);
  EXPECT_THAT(refusal->message, HasSubstr("refuses this worker: why"));
}

TEST(PermanentRefusalTest, NamesWhatToCorrect) {
  const auto in_use =
      Refuse(absl::StatusCode::kAlreadyExists, reason::kWorkerNameInUse);
  ASSERT_TRUE(in_use.has_value());
  EXPECT_EQ(in_use->code, ExitCode::kUsage);
  EXPECT_EQ(in_use->message,
            "coordinator head:7000: why; choose another --name");

  const auto superseded =
      Refuse(absl::StatusCode::kAborted, reason::kSuperseded);
  ASSERT_TRUE(superseded.has_value());
  EXPECT_EQ(superseded->code, ExitCode::kRetryElsewhere);

  const auto protocol =
      Refuse(absl::StatusCode::kFailedPrecondition, reason::kProtocolMismatch);
  ASSERT_TRUE(protocol.has_value());
  EXPECT_EQ(protocol->code, ExitCode::kUsage);

  const auto other = Refuse(absl::StatusCode::kUnimplemented, "");
  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(other->message, HasSubstr("not as a Ringmaster coordinator"));

  for (const auto code : {absl::StatusCode::kUnauthenticated,
                          absl::StatusCode::kPermissionDenied}) {
    const auto credentials = Refuse(code, "");
    ASSERT_TRUE(credentials.has_value());
    EXPECT_THAT(credentials->message, HasSubstr("credentials"));
  }
  const auto invalid =
      Refuse(absl::StatusCode::kInvalidArgument, reason::kInvalidRequest);
  ASSERT_TRUE(invalid.has_value());
  EXPECT_EQ(invalid->code, ExitCode::kUsage);
}

TEST(PermanentRefusalTest, CallsOurOwnViolationABug) {
  const auto violation = Refuse(absl::StatusCode::kInvalidArgument,
                                reason::kSessionProtocolViolation);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->code, ExitCode::kInternal);
}

TEST(PermanentRefusalTest, LetsWhatMayPassBeTriedAgain) {
  EXPECT_FALSE(Refuse(absl::StatusCode::kUnavailable, reason::kShuttingDown));
  EXPECT_FALSE(Refuse(absl::StatusCode::kUnavailable, ""));
  EXPECT_FALSE(Refuse(absl::StatusCode::kAborted, reason::kLeaseExpired));
  EXPECT_FALSE(Refuse(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_FALSE(Refuse(absl::StatusCode::kInternal, ""));
}

TEST(PermanentRefusalTest, ANameThatADeadProcessHoldsMayBeFreeLater) {
  const SessionDown in_use{absl::StatusCode::kAlreadyExists,
                           std::string(reason::kWorkerNameInUse), "why"};
  EXPECT_FALSE(PermanentRefusal(in_use, "head:7000", "w0",
                                /*may_wait=*/true));
  const SessionDown superseded{absl::StatusCode::kAborted,
                               std::string(reason::kSuperseded), "why"};
  EXPECT_TRUE(PermanentRefusal(superseded, "head:7000", "w0",
                               /*may_wait=*/true));
}

TEST(DescribeSessionEndTest, SaysWhenANameDoesNotResolve) {
  EXPECT_EQ(DescribeSessionEnd({absl::StatusCode::kUnavailable, "",
                                "DNS resolution failed for nowhere:7000: x"},
                               "nowhere:7000"),
            "nowhere:7000 does not resolve (its DNS entry may still be on its "
            "way)");
  EXPECT_EQ(DescribeSessionEnd({absl::StatusCode::kUnavailable, "",
                                "failed to connect: wrong version number"},
                               "head:7000"),
            "coordinator head:7000: it does not speak TLS, and this program "
            "does (failed to connect: wrong version number)");
  EXPECT_EQ(DescribeSessionEnd({absl::StatusCode::kUnavailable, "", "refused"},
                               "head:7000"),
            "coordinator head:7000: refused");
  EXPECT_EQ(
      DescribeSessionEnd({absl::StatusCode::kUnavailable, "", ""}, "head:7000"),
      "coordinator head:7000: UNAVAILABLE");
}

TEST(IsNameInUseTest, GoesByTheReason) {
  EXPECT_TRUE(IsNameInUse({absl::StatusCode::kAlreadyExists,
                           std::string(reason::kWorkerNameInUse), "why"}));
  EXPECT_FALSE(IsNameInUse({absl::StatusCode::kAlreadyExists, "", "why"}));
}

TEST(IsExpulsionTest, IsTheLossOfAPlaceAndNothingElse) {
  const auto ends = [](std::string_view reason) {
    return IsExpulsion(
        SessionDown{absl::StatusCode::kAborted, std::string(reason), "why"});
  };
  EXPECT_TRUE(ends(reason::kLeaseExpired));
  EXPECT_TRUE(ends(reason::kStaleGeneration));
  EXPECT_FALSE(ends(reason::kShuttingDown));
  EXPECT_FALSE(ends(""));
}

}  // namespace
}  // namespace ringmaster::agent
