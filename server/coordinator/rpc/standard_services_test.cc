// Health, reflection, and what strangers send to the port.
#include <arpa/inet.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/rpc/test_server.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// A stream of raw bytes to any method, one blocking operation at a time.
class RawStream {
 public:
  RawStream(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& method)
      : stub_(channel) {
    context_.set_deadline(TestDeadline());
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(this);
    Await();
  }
  ~RawStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), this);
    return Await();
  }
  bool WritesDone() {
    call_->WritesDone(this);
    return Await();
  }
  // The next message; nothing at the end.
  std::string Read() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, this);
    return Await() ? TextOf(buffer) : "";
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, this);
    Await();
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

// grpc.health.v1.HealthCheckRequest and -Response, by hand: Debian ships no stubs of them.
std::string HealthRequest(const std::string& service) {
  return std::string("\x0a") + static_cast<char>(service.size()) + service;
}
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

class StandardServicesTest : public ServedTest {
 protected:
  void ExpectStillServes() {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    v1::GetStatusResponse response;
    const auto stub = v1::StatusService::NewStub(NewChannel());
    EXPECT_TRUE(stub->GetStatus(&context, {}, &response).ok());
    TestWorker worker(NewChannel(), "probe");
    EXPECT_TRUE(worker.Join());
  }

  // Sends `bytes` to the port and returns what comes back until the server closes.
  std::string SendRaw(const std::string& bytes) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->address().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    shutdown(fd, SHUT_WR);
    std::string reply;
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      reply.append(buffer, got);
    }
    close(fd);
    return reply;
  }
};

TEST_F(StandardServicesTest, HealthKnowsEachServiceAndTheWhole) {
  for (const char* service :
       {"", "ringmaster.v1.CoordinatorService", "ringmaster.v1.JobService",
        "ringmaster.v1.StatusService"}) {
    RawStream check(NewChannel(), "/grpc.health.v1.Health/Check");
    check.Write(HealthRequest(service));
    check.WritesDone();
    EXPECT_EQ(check.Read(), kServing) << service;
    EXPECT_TRUE(check.Finish().ok());
  }
  RawStream unknown(NewChannel(), "/grpc.health.v1.Health/Check");
  unknown.Write(HealthRequest("nobody"));
  unknown.WritesDone();
  EXPECT_EQ(unknown.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardServicesTest, HealthSaysNotServingBeforeTheEnd) {
  RawStream watch(NewChannel(), "/grpc.health.v1.Health/Watch");
  watch.Write(HealthRequest("ringmaster.v1.JobService"));
  watch.WritesDone();
  EXPECT_EQ(watch.Read(), kServing);
  server_->AnnounceShutdown();
  EXPECT_EQ(watch.Read(), kNotServing);
  ExpectStillServes();
}

TEST_F(StandardServicesTest, ReflectionListsTheServices) {
  RawStream reflection(
      NewChannel(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  reflection.Write("\x3a\x01*");  // list_services: "*"
  EXPECT_THAT(reflection.Read(),
              AllOf(HasSubstr("ringmaster.v1.CoordinatorService"),
                    HasSubstr("ringmaster.v1.JobService"),
                    HasSubstr("ringmaster.v1.StatusService"),
                    HasSubstr("grpc.health.v1.Health")));
}

TEST_F(StandardServicesTest, GarbageOnThePortDoesNoHarm) {
  SendRaw(std::string(100'000, '\xff'));
  SendRaw("GET / HTTP/1.1\r\nHost: coordinator\r\n\r\n");
  SendRaw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(5000, '\x07'));
  SendRaw("");
  ExpectStillServes();
}

TEST_F(StandardServicesTest, MalformedMessageEndsOnlyItsOwnCall) {
  RawStream session(NewChannel(), "/ringmaster.v1.CoordinatorService/Session");
  session.Write("\xff\xff\xff\xff\xff");
  EXPECT_EQ(session.Read(), "");
  RawStream submit(NewChannel(), "/ringmaster.v1.JobService/SubmitJob");
  submit.Write("\xff\xff\xff\xff\xff");
  submit.WritesDone();
  EXPECT_FALSE(submit.Finish().ok());
  RawStream unknown(NewChannel(), "/ringmaster.v1.JobService/NoSuchMethod");
  unknown.Write("");
  unknown.WritesDone();
  EXPECT_EQ(unknown.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  ExpectStillServes();
}

TEST_F(StandardServicesTest, OversizedMessageEndsOnlyItsOwnCall) {
  RawStream submit(
      grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()),
      "/ringmaster.v1.JobService/SubmitJob");
  submit.Write(std::string(kMaxMessageBytes + 1000, 'x'));
  submit.WritesDone();
  EXPECT_EQ(submit.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectStillServes();
}

TEST_F(StandardServicesTest, WorkerThatDoesNotReadIsCutOffAlone) {
  // It sends without pause and never reads; the coordinator reads one message at a time.
  TestWorker flood(NewChannel(), "flood");
  v1::SessionRequest beat;
  beat.mutable_beat()->set_waiting_for_rank(-1);
  flood.Say(flood.HelloMessage());
  for (int i = 0; i < 20'000; ++i) flood.Say(beat);
  ExpectStillServes();
}

}  // namespace
}  // namespace ringmaster::coordinator
