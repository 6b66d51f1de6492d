#include "server/ctl/client/client.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.grpc.pb.h"
#include "server/ctl/client/explain.h"
#include "server/ctl/client/testing/fake_coordinator.h"

namespace ringmaster::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Client ClientOf(const std::string& address,
                absl::Duration timeout = absl::Seconds(20)) {
  return Client({.address = address,
                 .credentials = grpc::InsecureChannelCredentials(),
                 .timeout = timeout});
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ClientTest, PassesRequestsAndAnswers) {
  FakeCoordinator coordinator;
  v1::Job job;
  job.set_id("mlp-1");
  coordinator.SetJob(job);
  Client client = ClientOf(coordinator.address());
  v1::JobSpec spec;
  spec.set_name("mlp");

  EXPECT_EQ(client.SubmitJob(spec, true, "abc")->id(), "mlp-1");
  EXPECT_EQ(coordinator.submitted().spec().name(), "mlp");
  EXPECT_TRUE(coordinator.submitted().validate_only());
  EXPECT_EQ(coordinator.submitted().request_id(), "abc");
  EXPECT_EQ(client.GetJob("mlp")->id(), "mlp-1");
  EXPECT_EQ(client.CancelJob("mlp", "enough")->id(), "mlp-1");
  EXPECT_EQ(coordinator.cancelled().reason(), "enough");
}

TEST(ClientTest, ReadsStatusEventsAndTrace) {
  FakeCoordinator coordinator;
  v1::ExplainJobResponse explanation;
  explanation.set_summary("trains");
  coordinator.SetExplanation(explanation);
  v1::Status status;
  status.mutable_coordinator()->set_version("1.2");
  coordinator.SetStatus(status);
  v1::Event first;
  first.set_sequence(1);
  v1::Event second;
  second.set_sequence(2);
  coordinator.SetEvents({first, second});
  v1::GetTraceResponse trace;
  trace.add_missing_workers("w-1");
  coordinator.SetTrace(trace);
  Client client = ClientOf(coordinator.address());

  EXPECT_EQ(client.GetStatus()->coordinator().version(), "1.2");
  EXPECT_EQ(client.ListEvents("", 1)->events_size(), 1);
  EXPECT_EQ(client.GetTrace("mlp", 0, 0)->missing_workers(0), "w-1");
}

TEST(ClientTest, KeepsTheCoordinatorsOwnWords) {
  FakeCoordinator coordinator;
  coordinator.FailWith(WithReason(absl::NotFoundError("there is no job x"),
                                  reason::kJobNotFound));
  const absl::Status status =
      ClientOf(coordinator.address()).GetJob("x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "there is no job x");
  EXPECT_EQ(ReasonOf(status), reason::kJobNotFound);
}

TEST(ClientTest, SaysThatNobodyListens) {
  std::string address;
  {
    FakeCoordinator gone;
    address = gone.address();
  }
  const absl::Status status = ClientOf(address).GetStatus().status();
  EXPECT_THAT(MessageOf(status),
              HasSubstr(absl::StrCat("no coordinator listens at ", address)));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, SaysThatTheNameDoesNotResolve) {
  const absl::Status status =
      ClientOf("no-such-host.invalid:7000").GetStatus().status();
  EXPECT_THAT(MessageOf(status),
              HasSubstr("cannot resolve the coordinator's address "
                        "no-such-host.invalid:7000"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, SaysThatAWebServerIsNoCoordinator) {
  PlainServer server("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  const absl::Status status = ClientOf(server.address()).GetStatus().status();
  EXPECT_THAT(MessageOf(status), HasSubstr("is not a coordinator's gRPC port"))
      << status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, SaysThatAnotherProtocolIsNoCoordinator) {
  PlainServer server("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
  const absl::Status status = ClientOf(server.address()).GetStatus().status();
  EXPECT_THAT(MessageOf(status), HasSubstr(server.address())) << status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, GivesUpOnASilentServerAtTheTimeout) {
  PlainServer server("");
  const absl::Status status =
      ClientOf(server.address(), absl::Milliseconds(200)).GetStatus().status();
  EXPECT_THAT(MessageOf(status), HasSubstr("within 200ms")) << status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, SaysThatAnotherServiceIsNoCoordinator) {
  int port = 0;
  v1::CoordinatorService::Service other;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&other);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const absl::Status status =
      ClientOf(absl::StrCat("127.0.0.1:", port)).GetStatus().status();
  EXPECT_THAT(MessageOf(status),
              HasSubstr("speaks gRPC, but is not a Ringmaster coordinator"))
      << status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRetryElsewhere);
}

TEST(ClientTest, ShutdownEndsAWatchAndFailsLaterCalls) {
  FakeCoordinator coordinator;
  coordinator.SetJob({});
  Client client = ClientOf(coordinator.address());
  const std::unique_ptr<Client> other = client.Share();
  absl::Status ended;
  std::thread watcher(
      [&] { ended = other->WatchJob("j", [](const v1::Job&) {}); });
  coordinator.AwaitWatcher();
  other->Shutdown();
  watcher.join();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(other->GetStatus().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(client.GetStatus().ok());
}

TEST(ClientTest, ReconnectLeavesTheOldConnectionAtOnce) {
  auto coordinator = std::make_unique<FakeCoordinator>();
  const int port = coordinator->port();
  coordinator->SetJob({});
  Client client = ClientOf(coordinator->address());
  const std::unique_ptr<Client> other = client.Share();
  absl::Status ended;
  std::thread watcher(
      [&] { ended = other->WatchJob("j", [](const v1::Job&) {}); });
  coordinator->AwaitWatcher();
  // Calls that are under way go on, whoever reconnects.
  client.Reconnect();
  other->Reconnect();
  EXPECT_TRUE(client.GetStatus().ok());
  other->Shutdown();
  watcher.join();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  coordinator.reset();
  EXPECT_TRUE(absl::IsUnavailable(client.GetStatus().status()));
  coordinator = std::make_unique<FakeCoordinator>(port);
  client.Reconnect();
  EXPECT_TRUE(client.GetStatus().ok());
}

TEST(ExplainTest, PointsAtTlsWhereTheHandshakeFails) {
  const absl::Status status = Explain(
      absl::UnavailableError("failed to connect to all addresses; last error: "
                             "Ssl handshake failed:\nwrong version number"),
      "h:1", absl::Seconds(5));
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("h:1: it does not speak TLS"),
                    HasSubstr("the TLS flags, or give --insecure")));
  EXPECT_EQ(MessageOf(status).find('\n'), std::string::npos);
}

TEST(ExplainTest, NamesTheAddressForOtherErrors) {
  EXPECT_THAT(
      MessageOf(Explain(absl::UnavailableError("Socket closed"), "h:1",
                        absl::Seconds(5))),
      HasSubstr("no connection to the coordinator at h:1 (Socket closed)"));
  EXPECT_THAT(
      MessageOf(Explain(absl::InternalError("boom"), "h:1", absl::Seconds(5))),
      HasSubstr("the coordinator at h:1 answered INTERNAL: boom"));
  EXPECT_TRUE(Explain(absl::OkStatus(), "h:1", absl::Seconds(5)).ok());
}

}  // namespace
}  // namespace ringmaster::ctl
