#include "common/rpc/channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/credentials/credentials.h"
#include "common/credentials/testing/test_certificates.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/status_service.grpc.pb.h"

namespace ringmaster {
namespace {

// Answers GetStatus with a message of about `answer_bytes`.
class BigStatusService final : public v1::StatusService::CallbackService {
 public:
  explicit BigStatusService(size_t answer_bytes)
      : answer_bytes_(answer_bytes) {}

  grpc::ServerUnaryReactor* GetStatus(
      grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
      v1::GetStatusResponse* response) override {
    response->mutable_status()->mutable_coordinator()->set_version(
        std::string(answer_bytes_, 'v'));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const size_t answer_bytes_;
};

struct Served {
  explicit Served(size_t answer_bytes, int want_port = 0,
                  const std::shared_ptr<grpc::ServerCredentials>& credentials =
                      grpc::InsecureServerCredentials(),
                  const std::string& host = "127.0.0.1")
      : service(answer_bytes) {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort(absl::StrCat(host, ":", want_port), credentials,
                             &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
  }

  BigStatusService service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

grpc::Status GetStatus(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::StatusService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  v1::GetStatusResponse response;
  return stub->GetStatus(&context, {}, &response);
}

grpc::Status GetStatus(int port) {
  return GetStatus(MakeChannel(absl::StrCat("127.0.0.1:", port),
                               grpc::InsecureChannelCredentials()));
}

TEST(ChannelTest, ClientReachesServer) {
  Served served(1000);
  ASSERT_NE(served.server, nullptr);
  EXPECT_TRUE(GetStatus(served.port).ok());
}

// The certificates are for localhost and 127.0.0.1.
TEST(ChannelTest, AnAddressOfACertifiedNameIsAccepted) {
  const TestCertificates authority(testing::TempDir(), "channel");
  const TestCertificates::Files files = authority.Issue("server");
  const auto server = MakeServerCredentials({.tls_cert_file = files.certificate,
                                             .tls_key_file = files.key,
                                             .takes_tokens = true},
                                            "127.0.0.2:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = MakeChannelCredentials(
      {.tls_ca_file = authority.ca_file()}, "127.0.0.2:0");
  ASSERT_TRUE(client.ok()) << client.status();
  Served served(1, /*want_port=*/0, *server, "127.0.0.2");
  ASSERT_NE(served.server, nullptr);
  const std::string address = absl::StrCat("ipv4:127.0.0.2:", served.port);
  EXPECT_EQ(GetStatus(MakeChannel(address, *client)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  const grpc::Status status = GetStatus(
      MakeChannel(address, *client,
                  {.certified_for = absl::StrCat("localhost:", served.port)}));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(ChannelTest, OversizedMessageIsRefused) {
  Served served(kMaxMessageBytes + 1);
  EXPECT_EQ(GetStatus(served.port).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(ChannelTest, SecondServerOnTheSamePortFails) {
  Served first(1);
  ASSERT_NE(first.server, nullptr);
  Served second(1, first.port);
  EXPECT_EQ(second.server, nullptr);
}

TEST(ChannelTest, AbsentServerIsUnavailable) {
  int port = 0;
  {
    Served served(1);
    port = served.port;
  }
  EXPECT_EQ(GetStatus(port).error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Pings as often as may be are no strikes: more than two, on a connection that
// says nothing else, would end it.
TEST(ChannelTest, PingsDoNotEndAnIdleConnection) {
  Served served(1);
  const auto channel = MakeChannel(
      absl::StrCat("127.0.0.1:", served.port),
      grpc::InsecureChannelCredentials(),
      {.has_own_connection = true, .ping_interval = absl::ZeroDuration()});
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                        std::chrono::seconds(20)));
  EXPECT_FALSE(channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() +
                              4 * absl::ToChronoSeconds(kMinPingInterval)));
}

TEST(SetResolverOptionsTest, LeavesAUsersOptions) {
  setenv("RES_OPTIONS", "ndots:2", /*overwrite=*/1);
  SetResolverOptions();
  EXPECT_STREQ(std::getenv("RES_OPTIONS"), "ndots:2");
  unsetenv("RES_OPTIONS");
  SetResolverOptions();
  EXPECT_NE(std::getenv("RES_OPTIONS"), nullptr);
}

}  // namespace
}  // namespace ringmaster
