#include "common/rpc/health_server.h"

#include <grpcpp/security/credentials.h>

#include <string>

#include "common/rpc/channel.h"
#include "common/rpc/testing/raw_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

struct Answer {
  grpc::Status status;
  std::string bytes;
};

Answer Call(const HealthServer& server, const std::string& method,
            const std::string& request) {
  RawStream call(MakeChannel(server.address().ToString(),
                             grpc::InsecureChannelCredentials()),
                 method);
  call.Write(request);
  call.WritesDone();
  Answer answer;
  answer.bytes = call.Read();
  answer.status = call.Finish();
  return answer;
}

Answer Check(const HealthServer& server, const std::string& service) {
  return Call(server, "/grpc.health.v1.Health/Check", HealthRequest(service));
}

TEST(HealthServer, LivesAtOnceAndThenSaysWhatItIsTold) {
  const auto server = HealthServer::Start({"127.0.0.1", 0});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Check(**server, "").bytes, kServing);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kNotServing);
  (*server)->Set(true, true);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kServing);
  (*server)->Set(true, false);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kNotServing);
  EXPECT_EQ(Check(**server, "").bytes, kServing);
  (*server)->Set(false, false);
  EXPECT_EQ(Check(**server, "").bytes, kNotServing);
}

TEST(HealthServer, HasNothingElse) {
  const auto server = HealthServer::Start({"127.0.0.1", 0});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Check(**server, "other").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(**server, "/ringmaster.v1.JobService/CancelJob", "")
                .status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(HealthServer, SaysWhyItCannotListen) {
  const auto first = HealthServer::Start({"127.0.0.1", 0});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = HealthServer::Start((*first)->address());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace ringmaster
