// The coordinator's fail points on its streams and calls: each breaks what it
// names, and nothing else.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/rpc/grpc_status.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "server/coordinator/rpc/testing/test_server.h"

namespace ringmaster::coordinator {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::OneofDescriptor;

// "coordinator.receive.hello" for the field `hello`; a trace is one word.
std::string PointOf(const std::string& area, const FieldDescriptor& field) {
  const std::string name =
      field.name() == "trace_reply" ? "trace" : field.name();
  return absl::StrCat("coordinator.", area, ".", name);
}

const OneofDescriptor& MessagesOf(const Descriptor* descriptor) {
  return *descriptor->FindOneofByName("message");
}

// A call in a thread of its own, which a fail point may hold up: however a test
// ends, the call ends too.
class Submitter {
 public:
  explicit Submitter(std::function<void()> call) : thread_(std::move(call)) {}
  ~Submitter() { Join(); }

  // Lets it go on, and waits for it.
  void Join() {
    FailPoint::DisarmAll();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

class ServerFaultTest : public ServedTest {
 protected:
  ~ServerFaultTest() override { FailPoint::DisarmAll(); }

  // A message that holds nothing but its kind: points are passed before a
  // message is looked at.
  static v1::SessionRequest EmptyMessage(const FieldDescriptor& field) {
    v1::SessionRequest message;
    message.GetReflection()->MutableMessage(&message, &field);
    return message;
  }

  static v1::SubmitJobRequest SmallJob() {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("small");
    spec.mutable_workers()->set_min(1);
    spec.mutable_train()->mutable_model()->mutable_mlp();
    spec.mutable_train()->mutable_data()->mutable_synthetic();
    spec.mutable_train()->set_steps(10);
    return request;
  }

  absl::Status Submit() {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    v1::SubmitJobResponse response;
    return FromGrpcStatus(jobs_->SubmitJob(&context, SmallJob(), &response));
  }

  const std::unique_ptr<v1::JobService::Stub> jobs_ =
      v1::JobService::NewStub(NewChannel());
};

TEST_F(ServerFaultTest, EveryMessageHasItsPoint) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  const std::vector<std::string> names = FailPoint::Names();
  const std::set<std::string> known(names.begin(), names.end());
  const OneofDescriptor& requests =
      MessagesOf(v1::SessionRequest::descriptor());
  for (int i = 0; i < requests.field_count(); ++i) {
    EXPECT_TRUE(known.contains(PointOf("receive", *requests.field(i))))
        << requests.field(i)->name();
  }
  const OneofDescriptor& responses =
      MessagesOf(v1::SessionResponse::descriptor());
  for (int i = 0; i < responses.field_count(); ++i) {
    if (responses.field(i)->options().deprecated()) continue;  // never sent
    EXPECT_TRUE(known.contains(PointOf("send", *responses.field(i))))
        << responses.field(i)->name();
  }
}

TEST_F(ServerFaultTest, ReceiveErrorBreaksTheStreamAndTheNextOneWorks) {
  const OneofDescriptor& messages =
      MessagesOf(v1::SessionRequest::descriptor());
  for (int i = 0; i < messages.field_count(); ++i) {
    const FieldDescriptor& field = *messages.field(i);
    SCOPED_TRACE(field.name());
    const std::string name = absl::StrCat("w", i);
    TestWorker worker(NewChannel(), name);
    const bool is_hello = field.name() == "hello";
    if (!is_hello) {
      ASSERT_TRUE(worker.Join());
    }
    FailPoint::Arm(PointOf("receive", field), FailPoint::Action::kError);
    worker.Say(is_hello ? worker.HelloMessage() : EmptyMessage(field));
    EXPECT_EQ(FromGrpcStatus(worker.End()).code(),
              absl::StatusCode::kCancelled);
    FailPoint::DisarmAll();
    TestWorker again(NewChannel(), name);
    EXPECT_TRUE(again.Join());
  }
}

TEST_F(ServerFaultTest, SendErrorBreaksTheStreamAndTheNextOneWorks) {
  for (const char* point :
       {"coordinator.send.welcome", "coordinator.send.assignment"}) {
    SCOPED_TRACE(point);
    FailPoint::Arm(point, FailPoint::Action::kError);
    TestWorker worker(NewChannel(), "w0");
    worker.Say(worker.HelloMessage());
    if (point == std::string("coordinator.send.assignment")) {
      ASSERT_TRUE(worker.Hear().has_welcome());
      ASSERT_TRUE(Submit().ok());
    }
    EXPECT_EQ(FromGrpcStatus(worker.End()).code(),
              absl::StatusCode::kCancelled);
    FailPoint::DisarmAll();
  }
  TestWorker again(NewChannel(), "w0");
  EXPECT_TRUE(again.Join());
}

TEST_F(ServerFaultTest, CallErrorFailsTheCallAndLeavesNothing) {
  FailPoint::Arm("coordinator.call.submit", FailPoint::Action::kError);
  const absl::Status status = Submit();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "fail point coordinator.call.submit");
  FailPoint::DisarmAll();
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(jobs_->ListJobs(&context, {}, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
  EXPECT_TRUE(Submit().ok());
}

TEST_F(ServerFaultTest, StatusTellsOfADiskThatHangs) {
  FailPoint::Arm("journal.sync", FailPoint::Action::kHang);
  Submitter submitter([this] { EXPECT_TRUE(Submit().ok()); });
  const std::unique_ptr<v1::StatusService::Stub> stub =
      v1::StatusService::NewStub(NewChannel());
  v1::GetStatusResponse response;
  const auto deadline = TestDeadline();
  while (response.status().coordinator().journal_error().empty() &&
         std::chrono::system_clock::now() < deadline) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    ASSERT_TRUE(stub->GetStatus(&context, {}, &response).ok());
  }
  EXPECT_THAT(response.status().coordinator().journal_error(),
              ::testing::HasSubstr("for the disk to write the journal"));
  submitter.Join();
  // The record of the change follows that of the job.
  while (!response.status().coordinator().journal_error().empty() &&
         std::chrono::system_clock::now() < deadline) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    ASSERT_TRUE(stub->GetStatus(&context, {}, &response).ok());
  }
  EXPECT_EQ(response.status().coordinator().journal_error(), "");
}

TEST_F(ServerFaultTest, CancelErrorLeavesTheJobAlone) {
  ASSERT_TRUE(Submit().ok());
  FailPoint::Arm("coordinator.call.cancel", FailPoint::Action::kError);
  v1::CancelJobRequest request;
  request.set_job("small");
  v1::CancelJobResponse response;
  for (const grpc::StatusCode expected :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::OK}) {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    EXPECT_EQ(jobs_->CancelJob(&context, request, &response).error_code(),
              expected);
    FailPoint::DisarmAll();
  }
  EXPECT_EQ(response.job().state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(ServerFaultTest, WatchErrorEndsTheWatchOnly) {
  ASSERT_TRUE(Submit().ok());
  FailPoint::Arm("watch.send", FailPoint::Action::kError);
  v1::WatchJobRequest request;
  request.set_job("small");
  v1::WatchJobResponse seen;
  {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    const auto watch = jobs_->WatchJob(&context, request);
    EXPECT_FALSE(watch->Read(&seen));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  FailPoint::DisarmAll();
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  const auto watch = jobs_->WatchJob(&context, request);
  EXPECT_TRUE(watch->Read(&seen));
  context.TryCancel();
}

}  // namespace
}  // namespace ringmaster::coordinator
