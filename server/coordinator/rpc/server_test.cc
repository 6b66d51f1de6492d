#include "server/coordinator/rpc/server.h"

#include <memory>
#include <string>
#include <thread>

#include "common/logging/logging.h"
#include "common/protocol/proto_time.h"
#include "common/rpc/grpc_status.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/pool_service.grpc.pb.h"
#include "server/coordinator/rpc/testing/test_server.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

class ServerTest : public ServedTest {
 protected:
  // Calls a unary method with a deadline.
  template <typename Stub, typename Request, typename Response>
  static absl::Status Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                        const Request&,
                                                        Response*),
                           const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    return FromGrpcStatus((stub.*method)(&context, request, &response));
  }

  static v1::SubmitJobRequest JobOf(int workers, int64_t steps = 10) {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("digits");
    spec.mutable_workers()->set_min(workers);
    spec.mutable_train()->mutable_model()->mutable_mlp();
    spec.mutable_train()->mutable_data()->mutable_synthetic();
    spec.mutable_train()->set_steps(steps);
    return request;
  }

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request) {
    v1::SubmitJobResponse response;
    const absl::Status status =
        Call(*jobs_, &v1::JobService::Stub::SubmitJob, request, response);
    if (!status.ok()) return status;
    return response.job();
  }

  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_job(id);
    v1::GetJobResponse response;
    EXPECT_TRUE(
        Call(*jobs_, &v1::JobService::Stub::GetJob, request, response).ok());
    return response.job();
  }

  v1::Status Status() {
    v1::GetStatusResponse response;
    EXPECT_TRUE(Call(*status_, &v1::StatusService::Stub::GetStatus,
                     v1::GetStatusRequest(), response)
                    .ok());
    return response.status();
  }

  const std::shared_ptr<grpc::Channel> channel_ = NewChannel();
  const std::unique_ptr<v1::JobService::Stub> jobs_ =
      v1::JobService::NewStub(channel_);
  const std::unique_ptr<v1::StatusService::Stub> status_ =
      v1::StatusService::NewStub(channel_);
};

TEST_F(ServerTest, AWorkerWhoseCertificateExpiresSoonIsShown) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  v1::SessionRequest beat;
  beat.mutable_beat()->set_waiting_for_rank(-1);
  beat.mutable_beat()->mutable_certificate_expire_time()->set_seconds(2000);
  const auto await = [this](int64_t seconds) {
    const auto deadline = TestDeadline();
    while (Status().workers(0).certificate_expire_time().seconds() != seconds) {
      if (std::chrono::system_clock::now() > deadline) return false;
    }
    return true;
  };
  worker.Say(beat);
  EXPECT_TRUE(await(2000));
  // It was renewed.
  beat.mutable_beat()->clear_certificate_expire_time();
  worker.Say(beat);
  EXPECT_TRUE(await(0));
}

TEST_F(ServerTest, WorkerIsWelcomedAndShown) {
  TestWorker worker(NewChannel(), "w0");
  worker.Say(worker.HelloMessage());
  const v1::SessionResponse message = worker.Hear();
  ASSERT_TRUE(message.has_welcome());
  EXPECT_EQ(message.welcome().observed_host(), "127.0.0.1");
  const v1::Status status = Status();
  ASSERT_EQ(status.workers_size(), 1);
  EXPECT_EQ(status.workers(0).name(), "w0");
  EXPECT_EQ(status.workers(0).data_address(), "127.0.0.1:29500");
  EXPECT_EQ(status.coordinator().incarnation(),
            message.welcome().coordinator_incarnation());
}

TEST_F(ServerTest, NameOfALiveWorkerIsRefused) {
  TestWorker first(NewChannel(), "w0");
  ASSERT_TRUE(first.Join());
  TestWorker second(NewChannel(), "w0");
  v1::SessionRequest hello = second.HelloMessage();
  hello.mutable_hello()->set_incarnation(999);
  second.Say(hello);
  const absl::Status end = FromGrpcStatus(second.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(end), reason::kWorkerNameInUse);
  EXPECT_THAT(std::string(end.message()), HasSubstr("node-1"));
  EXPECT_EQ(Status().workers_size(), 1);
}

TEST_F(ServerTest, OtherProtocolIsRefused) {
  TestWorker worker(NewChannel(), "w0");
  v1::SessionRequest hello = worker.HelloMessage();
  hello.mutable_hello()->set_protocol_min(7);
  hello.mutable_hello()->set_protocol_max(9);
  worker.Say(hello);
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(end), reason::kProtocolMismatch);
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("speaks protocol versions 7 to 9, this coordinator "
                        "1 to 3"));
}

TEST_F(ServerTest, SameIncarnationSupersedesItsOldStream) {
  TestWorker before(NewChannel(), "w0");
  ASSERT_TRUE(before.Join());
  TestWorker after(NewChannel(), "w0");
  ASSERT_TRUE(after.Join());
  const absl::Status end = FromGrpcStatus(before.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(end), reason::kSuperseded);
  EXPECT_EQ(Status().workers_size(), 1);
}

TEST_F(ServerTest, BrokenProtocolEndsTheSession) {
  TestWorker worker(NewChannel(), "w0");
  v1::SessionRequest beat;
  beat.mutable_beat();
  worker.Say(beat);
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(end), reason::kSessionProtocolViolation);
}

TEST_F(ServerTest, JobOfTwoRunsFromSubmissionToSuccess) {
  TestWorker workers[] = {{NewChannel(), "w0"}, {NewChannel(), "w1"}};
  for (TestWorker& worker : workers) ASSERT_TRUE(worker.Join());
  const auto job = Submit(JobOf(2));
  ASSERT_TRUE(job.ok()) << job.status();
  int64_t generation = 0;
  for (TestWorker& worker : workers) {
    const v1::SessionResponse message = worker.Hear();
    ASSERT_TRUE(message.has_assignment()) << message.ShortDebugString();
    generation = message.assignment().generation();
  }
  v1::SessionRequest prepared;
  prepared.mutable_prepared()->set_generation(generation);
  for (TestWorker& worker : workers) worker.Say(prepared);
  for (TestWorker& worker : workers) ASSERT_TRUE(worker.Hear().has_start());
  EXPECT_EQ(Get("digits").state(), v1::JOB_STATE_RUNNING);

  v1::ListMembersRequest list;
  list.set_job_id(job->id());
  list.set_generation(generation);
  v1::ListMembersResponse members;
  const auto stub = v1::CoordinatorService::NewStub(channel_);
  ASSERT_TRUE(
      Call(*stub, &v1::CoordinatorService::Stub::ListMembers, list, members)
          .ok());
  EXPECT_EQ(members.members_size(), 2);

  v1::SessionRequest finished;
  finished.mutable_finished()->set_generation(generation);
  finished.mutable_finished()->set_step(10);
  finished.mutable_finished()->set_parameters_hash(0xabc);
  for (TestWorker& worker : workers) worker.Say(finished);
  for (TestWorker& worker : workers) ASSERT_TRUE(worker.Hear().has_release());
  const v1::Job ended = Get(job->id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ended.parameters_hash(), "0000000000000abc");

  v1::ListEventsRequest events;
  events.set_job("digits");
  v1::ListEventsResponse log;
  ASSERT_TRUE(
      Call(*jobs_, &v1::JobService::Stub::ListEvents, events, log).ok());
  EXPECT_GE(log.events_size(), 3);
}

TEST_F(ServerTest, VanishedWorkerHaltsTheOther) {
  auto lost = std::make_unique<TestWorker>(NewChannel(), "w0");
  TestWorker survivor(NewChannel(), "w1");
  ASSERT_TRUE(lost->Join());
  ASSERT_TRUE(survivor.Join());
  ASSERT_TRUE(Submit(JobOf(2)).ok());
  const int64_t generation = survivor.Hear().assignment().generation();
  lost->Vanish();
  const v1::SessionResponse message = survivor.Hear();
  ASSERT_TRUE(message.has_halt()) << message.ShortDebugString();
  EXPECT_EQ(message.halt().verdict().worker(), "w0");
  v1::SessionRequest halted;
  halted.mutable_halted()->set_generation(generation);
  survivor.Say(halted);
  // Too few are left: the job waits for another, and goes on with it.
  TestWorker another(NewChannel(), "w2");
  ASSERT_TRUE(another.Join());
  const v1::Assignment next = survivor.Hear().assignment();
  EXPECT_GT(next.generation(), generation);
  EXPECT_EQ(next.world_size(), 2);
  EXPECT_EQ(another.Hear().assignment().generation(), next.generation());
  EXPECT_EQ(Get("digits").verdict().worker(), "w0");
}

TEST_F(ServerTest, LeavingWorkerEndsItsStreamInPeace) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  v1::SessionRequest leaving;
  leaving.mutable_leaving()->set_done(true);
  worker.Say(leaving);
  worker.HangUp();
  EXPECT_TRUE(worker.End().ok());
  EXPECT_EQ(Status().workers_size(), 0);
}

TEST_F(ServerTest, InvalidSpecIsRefusedByField) {
  const absl::Status status = Submit(JobOf(2, 0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason::kInvalidJobSpec);
  EXPECT_EQ(status.message(), "train.steps must be at least 1, got 0");
}

TEST_F(ServerTest, ValidateOnlyReturnsDefaultsAndQueuesNothing) {
  v1::SubmitJobRequest request = JobOf(2);
  request.set_validate_only(true);
  const auto job = Submit(request);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->spec().train().global_batch(), 256);
  EXPECT_EQ(job->id(), "");
  EXPECT_EQ(Status().jobs_size(), 0);
}

TEST_F(ServerTest, RepeatedRequestReturnsTheFirstJob) {
  v1::SubmitJobRequest request = JobOf(2);
  request.set_request_id("r1");
  const auto first = Submit(request);
  const auto second = Submit(request);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->id(), second->id());
  EXPECT_EQ(Status().jobs_size(), 1);
}

TEST_F(ServerTest, CancelEndsAQueuedJobOnce) {
  ASSERT_TRUE(Submit(JobOf(2)).ok());
  v1::CancelJobRequest request;
  request.set_job("digits");
  request.set_reason("changed my mind");
  v1::CancelJobResponse response;
  ASSERT_TRUE(
      Call(*jobs_, &v1::JobService::Stub::CancelJob, request, response).ok());
  EXPECT_EQ(response.job().state(), v1::JOB_STATE_CANCELLED);
  const absl::Status again =
      Call(*jobs_, &v1::JobService::Stub::CancelJob, request, response);
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(again), reason::kJobAlreadyEnded);
  request.set_job("none");
  EXPECT_EQ(ReasonOf(Call(*jobs_, &v1::JobService::Stub::CancelJob, request,
                          response)),
            reason::kJobNotFound);
}

TEST_F(ServerTest, ChangeChangesWhatIsGivenAndNothingElse) {
  ASSERT_TRUE(Submit(JobOf(2)).ok());
  v1::ChangeJobRequest request;
  request.set_job("digits");
  v1::ChangeJobResponse response;
  const auto change = [&] {
    return Call(*jobs_, &v1::JobService::Stub::ChangeJob, request, response);
  };
  EXPECT_EQ(change().code(), absl::StatusCode::kInvalidArgument);
  request.set_priority(1001);
  EXPECT_EQ(change().message(),
            "priority must be from -1000 to 1000, got 1001");
  request.set_priority(-1000);
  ASSERT_TRUE(change().ok());
  EXPECT_EQ(response.job().priority(), -1000);
  EXPECT_FALSE(response.job().suspended());
  request.clear_priority();
  request.set_suspended(true);
  ASSERT_TRUE(change().ok());
  EXPECT_EQ(response.job().priority(), -1000);
  EXPECT_TRUE(response.job().suspended());
  EXPECT_EQ(response.job().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(response.job().queue_position(), 0);
}

TEST_F(ServerTest, ADrainIsDueWithinAYear) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  const auto pool = v1::PoolService::NewStub(channel_);
  const auto cordon = [&](bool drains, absl::Duration within) {
    v1::CordonRequest request;
    request.set_target("w0");
    request.set_drain(drains);
    *request.mutable_within() = ToProto(within);
    v1::CordonResponse response;
    return Call(*pool, &v1::PoolService::Stub::Cordon, request, response);
  };
  constexpr absl::Duration kYear = absl::Hours(24 * 366);
  for (const absl::Duration within :
       {absl::ZeroDuration(), -absl::Seconds(1), kYear + absl::Seconds(1)}) {
    const absl::Status refused = cordon(/*drains=*/true, within);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << within;
    EXPECT_EQ(ReasonOf(refused), reason::kInvalidRequest) << within;
  }
  EXPECT_THAT(std::string(cordon(/*drains=*/false, absl::Hours(2)).message()),
              HasSubstr("got 2h of a cordon"));
  EXPECT_EQ(Status().cordons_size(), 0);
  EXPECT_TRUE(cordon(/*drains=*/true, kYear).ok());
  EXPECT_TRUE(cordon(/*drains=*/true, absl::Seconds(1)).ok());
  ASSERT_EQ(Status().cordons_size(), 1);
  EXPECT_TRUE(Status().cordons(0).has_due_time());
}

TEST_F(ServerTest, AJobIsExplained) {
  const absl::StatusOr<v1::Job> job = Submit(JobOf(2));
  ASSERT_TRUE(job.ok()) << job.status();
  v1::ExplainJobRequest request;
  request.set_job(job->id());
  v1::ExplainJobResponse response;
  ASSERT_TRUE(
      Call(*jobs_, &v1::JobService::Stub::ExplainJob, request, response).ok());
  EXPECT_EQ(response.job_id(), job->id());
  EXPECT_EQ(response.summary(), "waits for workers: 0 of at least 2");
  request.set_job("other");
  const absl::Status unknown =
      Call(*jobs_, &v1::JobService::Stub::ExplainJob, request, response);
  EXPECT_EQ(ReasonOf(unknown), reason::kJobNotFound);
}

TEST_F(ServerTest, JobsAreListedNewestFirst) {
  ASSERT_TRUE(Submit(JobOf(2)).ok());
  const auto newest = Submit(JobOf(2));
  ASSERT_TRUE(newest.ok());
  v1::ListJobsResponse response;
  ASSERT_TRUE(Call(*jobs_, &v1::JobService::Stub::ListJobs,
                   v1::ListJobsRequest(), response)
                  .ok());
  ASSERT_EQ(response.jobs_size(), 2);
  EXPECT_EQ(response.jobs(0).id(), newest->id());
  EXPECT_EQ(response.jobs(0).queue_position(), 1);
}

TEST_F(ServerTest, WatchedJobIsShownAtOnceAndAfterChangesUntilItEnds) {
  const auto job = Submit(JobOf(2));
  ASSERT_TRUE(job.ok());
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::WatchJobRequest request;
  request.set_job("digits");
  const auto watch = jobs_->WatchJob(&context, request);
  v1::WatchJobResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_EQ(seen.job().id(), job->id());
  v1::CancelJobRequest cancel;
  cancel.set_job(job->id());
  v1::CancelJobResponse cancelled;
  ASSERT_TRUE(
      Call(*jobs_, &v1::JobService::Stub::CancelJob, cancel, cancelled).ok());
  int64_t revision = seen.revision();
  while (watch->Read(&seen)) {
    EXPECT_GT(seen.revision(), revision);
    revision = seen.revision();
  }
  EXPECT_EQ(seen.job().state(), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(watch->Finish().ok());
}

TEST_F(ServerTest, UnknownJobCannotBeWatched) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::WatchJobRequest request;
  request.set_job("none");
  const auto watch = jobs_->WatchJob(&context, request);
  v1::WatchJobResponse seen;
  EXPECT_FALSE(watch->Read(&seen));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(watch->Finish())), reason::kJobNotFound);
}

TEST_F(ServerTest, WatchedStatusIsShownAtOnceAndAfterChanges) {
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  const auto watch = status_->WatchStatus(&context, {});
  v1::WatchStatusResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_EQ(seen.status().workers_size(), 0);
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_EQ(seen.status().workers_size(), 1);
  context.TryCancel();
}

TEST_F(ServerTest, TraceNamesWhoDoesNotAnswer) {
  TestWorker talks(NewChannel(), "w0");
  TestWorker silent(NewChannel(), "w1");
  ASSERT_TRUE(talks.Join());
  ASSERT_TRUE(silent.Join());
  ASSERT_TRUE(Submit(JobOf(2)).ok());
  ASSERT_TRUE(talks.Hear().has_assignment());
  v1::GetTraceRequest request;
  request.set_job("digits");
  v1::GetTraceResponse response;
  absl::Status status;
  std::thread caller([&] {
    status = Call(*jobs_, &v1::JobService::Stub::GetTrace, request, response);
  });
  v1::SessionRequest reply;
  reply.mutable_trace_reply()->set_request_id(
      talks.Hear().trace_request().request_id());
  reply.mutable_trace_reply()->mutable_trace()->set_worker("w0");
  talks.Say(reply);
  caller.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.ranks_size(), 1);
  EXPECT_EQ(response.ranks(0).worker(), "w0");
  ASSERT_EQ(response.missing_workers_size(), 1);
  EXPECT_EQ(response.missing_workers(0), "w1");
}

TEST_F(ServerTest, BadTraceRangeIsRefused) {
  v1::GetTraceRequest request;
  request.set_first_step(-1);
  v1::GetTraceResponse response;
  EXPECT_EQ(ReasonOf(Call(*jobs_, &v1::JobService::Stub::GetTrace, request,
                          response)),
            reason::kInvalidRequest);
}

TEST_F(ServerTest, LogsComeFromTheWorkerThatIsNamed) {
  TestWorker worker(NewChannel(), "w0");
  v1::SessionRequest hello = worker.HelloMessage();
  hello.mutable_hello()->set_sends_logs(true);
  worker.Say(hello);
  ASSERT_TRUE(worker.Hear().has_welcome());
  v1::GetLogsRequest request;
  request.set_worker("w0");
  v1::GetLogsResponse response;
  absl::Status status;
  std::thread caller([&] {
    status =
        Call(*status_, &v1::StatusService::Stub::GetLogs, request, response);
  });
  v1::SessionRequest reply;
  reply.mutable_log_reply()->set_request_id(
      worker.Hear().log_request().request_id());
  reply.mutable_log_reply()->mutable_page()->add_lines()->set_event("x.y");
  worker.Say(reply);
  caller.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.logs_size(), 1);
  EXPECT_EQ(response.logs(0).name(), "w0");
  EXPECT_EQ(response.logs(0).page().lines(0).event(), "x.y");
}

TEST_F(ServerTest, AWorkerThatDoesNotKnowTheRequestIsNotAskedForLogs) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  v1::GetLogsRequest request;
  request.set_worker("w0");
  v1::GetLogsResponse response;
  ASSERT_TRUE(
      Call(*status_, &v1::StatusService::Stub::GetLogs, request, response)
          .ok());
  ASSERT_EQ(response.missing_size(), 1);
  EXPECT_THAT(response.missing(0).reason(), HasSubstr("earlier release"));
}

TEST_F(ServerTest, LogsOfTheCoordinatorAreItsOwn) {
  LogEvent(LogLevel::kWarning, "test.line", {{"number", 7}});
  v1::GetLogsRequest request;
  request.set_coordinator(true);
  request.mutable_filter()->set_min_severity(v1::LOG_SEVERITY_WARNING);
  request.mutable_filter()->set_tail(1);
  v1::GetLogsResponse response;
  ASSERT_TRUE(
      Call(*status_, &v1::StatusService::Stub::GetLogs, request, response)
          .ok());
  ASSERT_EQ(response.logs_size(), 1);
  EXPECT_EQ(response.logs(0).name(), "coordinator");
  ASSERT_EQ(response.logs(0).page().lines_size(), 1);
  EXPECT_EQ(response.logs(0).page().lines(0).fields(), "number=7");
}

TEST_F(ServerTest, LogsOfNobodyAreRefused) {
  v1::GetLogsResponse response;
  EXPECT_EQ(ReasonOf(Call(*status_, &v1::StatusService::Stub::GetLogs,
                          v1::GetLogsRequest(), response)),
            reason::kInvalidRequest);
}

TEST_F(ServerTest, ShutdownSaysSo) {
  TestWorker worker(NewChannel(), "w0");
  ASSERT_TRUE(worker.Join());
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  const auto watch = status_->WatchStatus(&context, {});
  v1::WatchStatusResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  runtime_->Shutdown();
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(end), reason::kShuttingDown);
  while (watch->Read(&seen)) {
  }
  EXPECT_EQ(ReasonOf(FromGrpcStatus(watch->Finish())), reason::kShuttingDown);
  EXPECT_EQ(ReasonOf(Submit(JobOf(1)).status()), reason::kShuttingDown);
}

TEST_F(ServerTest, TakenPortIsReported) {
  const auto second = CoordinatorServer::Start(
      *runtime_, server_->address(), grpc::InsecureServerCredentials());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace ringmaster::coordinator
