#include "common/protocol/proto_time.h"

#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ProtoTimeTest, DurationsSurviveTheRoundTrip) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(1500),
        -absl::Milliseconds(1500), absl::Hours(1000)}) {
    EXPECT_EQ(FromProto(ToProto(duration)), duration);
  }
}

TEST(ProtoTimeTest, NegativeDurationHasBothPartsNegative) {
  const google::protobuf::Duration proto = ToProto(-absl::Milliseconds(1500));
  EXPECT_EQ(proto.seconds(), -1);
  EXPECT_EQ(proto.nanos(), -500'000'000);
}

TEST(ProtoTimeTest, TimesSurviveTheRoundTrip) {
  for (const absl::Time time :
       {absl::UnixEpoch(), absl::FromUnixNanos(1'700'000'000'123'456'789),
        absl::FromUnixNanos(-1)}) {
    EXPECT_EQ(FromProto(ToProto(time)), time);
  }
  EXPECT_GE(ToProto(absl::FromUnixNanos(-1)).nanos(), 0);
}

TEST(ProtoTimeTest, ValuesBeyondTheRangeAreClamped) {
  using google::protobuf::util::TimeUtil;
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(),
            TimeUtil::kDurationMaxSeconds);
  EXPECT_EQ(ToProto(-absl::InfiniteDuration()).seconds(),
            TimeUtil::kDurationMinSeconds);
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(),
            TimeUtil::kTimestampMaxSeconds);
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(),
            TimeUtil::kTimestampMinSeconds);
}

}  // namespace
}  // namespace ringmaster
