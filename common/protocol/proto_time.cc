#include "common/protocol/proto_time.h"

#include <algorithm>
#include <cstdint>

namespace ringmaster {
namespace {
// The limits that google/protobuf/duration.proto and timestamp.proto state.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;
}  // namespace

google::protobuf::Duration ToProto(absl::Duration duration) {
  const absl::Duration bound = absl::Seconds(kMaxDurationSeconds);
  duration = std::clamp(duration, -bound, bound);
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  time = std::clamp(time, absl::FromUnixSeconds(kMinTimestampSeconds),
                    absl::FromUnixSeconds(kMaxTimestampSeconds));
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);  // rounds down
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return proto;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

}  // namespace ringmaster
