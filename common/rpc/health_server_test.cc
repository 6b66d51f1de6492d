#include "common/rpc/health_server.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

struct Answer {
  grpc::Status status;
  std::string bytes;
};

// Calls a method with a message and one in return; all of it as bytes, for
// Debian ships no stubs of grpc.health.v1.
Answer Call(const HealthServer& server, const std::string& method,
            const std::string& request) {
  grpc::GenericStub stub(MakeChannel(server.address().ToString(),
                                     grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(40));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto call =
      stub.PrepareUnaryCall(&context, method, {&slice, 1}, &queue);
  Answer answer;
  grpc::ByteBuffer buffer;
  call->StartCall();
  call->Finish(&buffer, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (buffer.Valid() && buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& piece : slices)
      answer.bytes.append(reinterpret_cast<const char*>(piece.begin()),
                          piece.size());
  }
  return answer;
}

// HealthCheckRequest with the service, HealthCheckResponse with SERVING (1) or
// NOT_SERVING (2).
Answer Check(const HealthServer& server, const std::string& service) {
  const std::string request =
      service.empty()
          ? ""
          : "\x0a" + std::string(1, static_cast<char>(service.size())) +
                service;
  return Call(server, "/grpc.health.v1.Health/Check", request);
}
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

TEST(HealthServer, LivesAtOnceAndIsReadyWhenTold) {
  const auto server = HealthServer::Start({"127.0.0.1", 0});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Check(**server, "").bytes, kServing);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kNotServing);
  (*server)->SetReady(true);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kServing);
  (*server)->SetReady(false);
  EXPECT_EQ(Check(**server, kReadyService).bytes, kNotServing);
  EXPECT_EQ(Check(**server, "").bytes, kServing);
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
