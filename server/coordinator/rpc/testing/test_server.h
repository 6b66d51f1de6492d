// TestServer: a served runtime on a free port, and a worker that talks to it, for tests of the coordinator's gRPC services.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_TEST_SERVER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_TEST_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.grpc.pb.h"
#include "ringmaster/v1/job_service.grpc.pb.h"
#include "ringmaster/v1/status_service.grpc.pb.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/server.h"

namespace ringmaster::coordinator {

// Bounds every call of a test.
inline std::chrono::system_clock::time_point TestDeadline() {
  return std::chrono::system_clock::now() + std::chrono::seconds(40);
}

// A fixture with a coordinator in this process. Its failure budget is so long that no lease runs out on a busy machine.
class ServedTest : public ::testing::Test {
 protected:
  ServedTest() {
    auto runtime = CoordinatorRuntime::Start(
        {.config = Config::FromFailureBudget(absl::Minutes(1)),
         .state_dir = state_dir_,
         .version = "test"});
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    auto server =
        CoordinatorServer::Start(*runtime_, {.host = "127.0.0.1", .port = 0},
                                 grpc::InsecureServerCredentials());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  ~ServedTest() override {
    runtime_->Shutdown();
    server_.reset();
    runtime_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  std::string target() const { return server_->address().ToString(); }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    return MakeChannel(target(), grpc::InsecureChannelCredentials(),
                       {.has_own_connection = true});
  }

  const std::string state_dir_ = absl::StrCat(
      std::getenv("TEST_TMPDIR"), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<CoordinatorRuntime> runtime_;
  std::unique_ptr<CoordinatorServer> server_;
};

// A worker as far as its session goes. Blocking; a call that hangs fails after TestDeadline.
class TestWorker {
 public:
  TestWorker(const std::shared_ptr<grpc::Channel>& channel, std::string name)
      : name_(std::move(name)),
        stub_(v1::CoordinatorService::NewStub(channel)) {
    context_.set_deadline(TestDeadline());
    stream_ = stub_->Session(&context_);
  }
  ~TestWorker() { context_.TryCancel(); }

  v1::SessionRequest HelloMessage() const {
    v1::SessionRequest message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_name(name_);
    hello.set_incarnation(std::hash<std::string>()(name_) | 1);
    hello.set_role(v1::ROLE_WORKER);
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_host("node-1");
    hello.set_pid(100);
    hello.set_data_port(29500);
    return message;
  }

  void Say(const v1::SessionRequest& message) { stream_->Write(message); }

  // Says hello; true if it is welcomed.
  bool Join() {
    Say(HelloMessage());
    return Hear().has_welcome();
  }

  // The next message; an empty one at the end of the stream.
  v1::SessionResponse Hear() {
    v1::SessionResponse message;
    if (!stream_->Read(&message)) message.Clear();
    return message;
  }

  // Reads to the end and returns how the session ended.
  grpc::Status End() {
    v1::SessionResponse message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish();
  }

  // Breaks the connection, as a killed process does.
  void Vanish() { context_.TryCancel(); }
  // Ends its side of the stream.
  void HangUp() { stream_->WritesDone(); }

 private:
  const std::string name_;
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>>
      stream_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_TEST_SERVER_H_
