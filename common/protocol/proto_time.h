// Durations and times as protobuf's well-known types, and back.
#ifndef RINGMASTER_COMMON_PROTOCOL_PROTO_TIME_H_
#define RINGMASTER_COMMON_PROTOCOL_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace ringmaster {

// Beyond the type's range (about 10,000 years) the nearest value in it.
[[nodiscard]] google::protobuf::Duration ToProto(absl::Duration duration);
[[nodiscard]] google::protobuf::Timestamp ToProto(absl::Time time);

// Malformed input (nanoseconds beyond a second) is read as the sum of both
// parts.
[[nodiscard]] absl::Duration FromProto(
    const google::protobuf::Duration& duration);
[[nodiscard]] absl::Time FromProto(const google::protobuf::Timestamp& time);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_PROTO_TIME_H_
