#include "common/rpc/grpc_status.h"

#include <grpcpp/support/status.h>

#include <string>

#include "common/status/reason.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/error.pb.h"

namespace ringmaster {
namespace {

TEST(GrpcStatusTest, KeepsCodeMessageAndReasonBothWays) {
  const absl::Status sent = WithReason(
      absl::NotFoundError("no job \"digits-7\""), reason::kJobNotFound);
  const grpc::Status wire = ToGrpcStatus(sent);
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(wire.error_message(), "no job \"digits-7\"");
  const absl::Status received = FromGrpcStatus(wire);
  EXPECT_EQ(received.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(received.message(), "no job \"digits-7\"");
  EXPECT_EQ(ReasonOf(received), reason::kJobNotFound);
}

TEST(GrpcStatusTest, EveryCodeSurvives) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status sent(static_cast<absl::StatusCode>(code), "text");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(sent)), sent) << code;
  }
}

TEST(GrpcStatusTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, TrailerReadsAsGoogleRpcStatus) {
  const grpc::Status wire = ToGrpcStatus(
      WithReason(absl::AbortedError("gone"), reason::kLeaseExpired));
  v1::ErrorStatus details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 10);
  EXPECT_EQ(details.message(), "gone");
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(),
            "type.googleapis.com/ringmaster.v1.ErrorInfo");
  v1::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "ringmaster");
}

TEST(GrpcStatusTest, IgnoresForeignAndMalformedTrailers) {
  const grpc::Status garbage(grpc::StatusCode::INTERNAL, "text",
                             std::string("\xff\x01\x02", 3));
  EXPECT_EQ(FromGrpcStatus(garbage), absl::InternalError("text"));
  v1::ErrorInfo info;
  info.set_reason("QUOTA");
  info.set_domain("example.com");
  v1::ErrorStatus details;
  details.add_details()->PackFrom(info);
  const grpc::Status foreign(grpc::StatusCode::INTERNAL, "text",
                             details.SerializeAsString());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(foreign)), "");
}

TEST(GrpcStatusTest, LongMessagesAreCutBetweenCharacters) {
  std::string text(1999, 'x');
  for (int i = 0; i < 1000; ++i) text += "\xc3\xa9";
  const grpc::Status wire = ToGrpcStatus(absl::InternalError(text));
  EXPECT_EQ(wire.error_message(), std::string(1999, 'x') + "...");
}

}  // namespace
}  // namespace ringmaster
