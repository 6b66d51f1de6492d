// Health, reflection, and what strangers send to the port.
#include <grpcpp/create_channel.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/testing/raw_stream.h"
#include "common/transport/testing/send_raw.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/rpc/testing/test_server.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

  void SendGarbage(const std::string& bytes) {
    (void)SendRaw(server_->address().port, bytes);
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

TEST_F(StandardServicesTest, HealthSaysWhetherTheCoreAnswers) {
  const auto answer = [this] {
    RawStream check(NewChannel(), "/grpc.health.v1.Health/Check");
    check.Write(HealthRequest(""));
    check.WritesDone();
    return check.Read();
  };
  server_->SetServing(false);
  EXPECT_EQ(answer(), kNotServing);
  server_->SetServing(true);
  EXPECT_EQ(answer(), kServing);
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
  SendGarbage(std::string(100'000, '\xff'));
  SendGarbage("GET / HTTP/1.1\r\nHost: coordinator\r\n\r\n");
  SendGarbage("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(5000, '\x07'));
  SendGarbage("");
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

TEST_F(StandardServicesTest, AConnectionHasAHundredCallsAtOnce) {
  const std::shared_ptr<grpc::Channel> channel = NewChannel();
  std::vector<std::unique_ptr<RawStream>> watches;
  for (int i = 0; i < 100; ++i) {
    watches.push_back(std::make_unique<RawStream>(
        channel, "/ringmaster.v1.StatusService/WatchStatus"));
    watches.back()->Write("");
    ASSERT_NE(watches.back()->Read(), "");
  }
  const auto ask = [&](std::chrono::system_clock::time_point deadline) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::GetStatusResponse response;
    return v1::StatusService::NewStub(channel)
        ->GetStatus(&context, {}, &response)
        .error_code();
  };
  EXPECT_EQ(
      ask(std::chrono::system_clock::now() + std::chrono::milliseconds(300)),
      grpc::StatusCode::DEADLINE_EXCEEDED);
  ExpectStillServes();  // other connections
  watches.pop_back();
  EXPECT_EQ(ask(TestDeadline()), grpc::StatusCode::OK);
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
