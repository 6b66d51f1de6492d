#include "worker/agent/agent.h"

#include <grpcpp/security/credentials.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "common/credentials/testing/test_certificates.h"
#include "common/credentials/tls_watch.h"
#include "common/logging/testing/log_capture.h"
#include "common/status/reason.h"
#include "common/transport/tcp.h"
#include "common/transport/testing/deaf_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"
#include "worker/agent/testing/fake_runner.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Message = v1::SessionRequest;

AgentOptions Options(const std::string& coordinator) {
  AgentOptions options;
  options.coordinator = coordinator;
  options.credentials = grpc::InsecureChannelCredentials();
  options.identity.name = "w0";
  options.identity.incarnation = 42;
  options.identity.host = "node-1";
  options.identity.host_key = "key";
  options.identity.pid = 123;
  options.identity.data_port = 4711;
  options.identity.version = "test";
  return options;
}

// An agent between a fake coordinator and a fake runner.
class AgentTest : public ::testing::Test {
 protected:
  void Start(AgentOptions options) {
    agent_ =
        std::make_unique<Agent>(Clock::Real(), trainer_, std::move(options));
  }
  void Start() { Start(Options(coordinator_->address())); }

  void Prepare(int64_t generation) {
    coordinator_->SendAssignment(generation);
    const auto prepared = coordinator_->Take(Message::kPrepared);
    ASSERT_TRUE(prepared.has_value());
    EXPECT_EQ(prepared->prepared().generation(), generation);
  }
  void Run(int64_t generation) {
    Prepare(generation);
    coordinator_->SendStart(generation);
    ASSERT_TRUE(trainer_.AwaitCall("run " + std::to_string(generation)));
  }

  LogCapture log_;
  std::unique_ptr<FakeCoordinator> coordinator_ =
      std::make_unique<FakeCoordinator>();
  FakeRunner trainer_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentTest, SaysWhoItIsAndBeats) {
  Start();
  const auto hello = coordinator_->Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->hello().name(), "w0");
  EXPECT_EQ(hello->hello().incarnation(), 42u);
  EXPECT_EQ(hello->hello().role(), v1::ROLE_WORKER);
  EXPECT_EQ(hello->hello().protocol_min(), 1);
  EXPECT_EQ(hello->hello().protocol_max(), 3);
  EXPECT_EQ(hello->hello().host(), "node-1");
  EXPECT_EQ(hello->hello().host_key(), "key");
  EXPECT_EQ(hello->hello().pid(), 123);
  EXPECT_EQ(hello->hello().device().kind(), v1::DEVICE_KIND_CPU);
  EXPECT_EQ(hello->hello().data_port(), 4711);
  EXPECT_EQ(hello->hello().generation(), 0);
  for (int i = 0; i < 3; ++i) {
    const auto beat = coordinator_->Take(Message::kBeat);
    ASSERT_TRUE(beat.has_value());
    EXPECT_EQ(beat->beat().phase(), v1::PHASE_IDLE);
    EXPECT_EQ(beat->beat().generation(), 0);
    EXPECT_EQ(beat->beat().waiting_for_rank(), -1);
  }
}

TEST_F(AgentTest, BeatsTellThatItsCertificateExpiresSoon) {
  const TestCertificates ours(::testing::TempDir(), "ours");
  const auto follow = [&](const char* name, absl::Duration lifetime) {
    const TestCertificates::Files files = ours.Issue(name, {}, lifetime);
    const auto watch = FollowTlsFiles({.tls_ca_file = ours.ca_file(),
                                       .tls_cert_file = files.certificate,
                                       .tls_key_file = files.key});
    EXPECT_TRUE(watch.ok()) << watch.status();
    return *watch;
  };
  const auto lasting = follow("lasting", absl::Hours(24));
  Start();
  auto beat = coordinator_->Take(Message::kBeat);
  ASSERT_TRUE(beat.has_value());
  EXPECT_FALSE(beat->beat().has_certificate_expire_time());
  // A minute of it is over.
  const auto ending = follow("ending", absl::Minutes(1) + absl::Seconds(15));
  do {
    beat = coordinator_->Take(Message::kBeat);
    ASSERT_TRUE(beat.has_value());
  } while (!beat->beat().has_certificate_expire_time());
  EXPECT_EQ(beat->beat().certificate_expire_time().seconds(),
            absl::ToUnixSeconds(ending->files()->end));
}

TEST_F(AgentTest, PreparesRunsAndFinishesAJob) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  coordinator_->SendAssignment(7, 1, 2);
  const auto prepared = coordinator_->Take(Message::kPrepared);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_EQ(prepared->prepared().plan_hash(), 11u);
  EXPECT_EQ(prepared->prepared().data_fingerprint(), 22u);
  EXPECT_EQ(prepared->prepared().summary(), "parameters=33");
  EXPECT_EQ(trainer_.assignment().rank, 1);
  EXPECT_EQ(trainer_.assignment().world_size, 2);
  EXPECT_EQ(trainer_.assignment().local_rank, 1);
  EXPECT_EQ(trainer_.assignment().local_world_size, 2);
  EXPECT_EQ(trainer_.assignment().secret, "secret");
  coordinator_->SendStart(7);
  ASSERT_TRUE(trainer_.AwaitCall("run 7"));
  trainer_.set_steps(10, 10);
  trainer_.EndRun(RunOutcome::Kind::kFinished);
  const auto finished = coordinator_->Take(Message::kFinished);
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->finished().generation(), 7);
  EXPECT_EQ(finished->finished().step(), 10);
  EXPECT_EQ(finished->finished().parameters_hash(), 4711u);
  EXPECT_FALSE(finished->finished().stopped());
  coordinator_->SendRelease(7);
  EXPECT_TRUE(trainer_.AwaitCall("release"));
}

TEST_F(AgentTest, PassesOnWhatTheTrainerTells) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  v1::Notice told;
  told.set_kind(v1::NOTICE_KIND_SAMPLE);
  told.set_generation(7);
  told.set_step(5);
  told.set_message("sample");
  told.mutable_sample()->set_prompt("The");
  told.mutable_sample()->set_text(" sea");
  trainer_.Tell(told);
  const auto notice = coordinator_->Take(Message::kNotice);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->notice().generation(), 7);
  EXPECT_EQ(notice->notice().step(), 5);
  EXPECT_EQ(notice->notice().kind(), v1::NOTICE_KIND_SAMPLE);
  EXPECT_EQ(notice->notice().sample().prompt(), "The");
  EXPECT_EQ(notice->notice().sample().text(), " sea");
}

TEST_F(AgentTest, BeatsCarryTheTrainersProgress) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(5, 6);
  for (int i = 0;; ++i) {
    const auto beat = coordinator_->Take(Message::kBeat);
    ASSERT_TRUE(beat.has_value());
    ASSERT_LT(i, 1000);
    if (beat->beat().step() != 5) continue;
    EXPECT_EQ(beat->beat().generation(), 7);
    EXPECT_EQ(beat->beat().phase(), v1::PHASE_STEP);
    EXPECT_EQ(beat->beat().figures().step(), 5);
    break;
  }
}

TEST_F(AgentTest, AnswersAHaltOnceTheTrainerHasReturned) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(41, 42);
  trainer_.set_is_stuck(true);
  coordinator_->SendHalt(7);
  ASSERT_TRUE(trainer_.AwaitCall("abort 7"));
  trainer_.set_is_stuck(false);
  const auto halted = coordinator_->Take(Message::kHalted);
  ASSERT_TRUE(halted.has_value());
  EXPECT_EQ(halted->halted().generation(), 7);
  EXPECT_EQ(halted->halted().applied_step(), 41);
  EXPECT_EQ(halted->halted().complete_step(), 42);
  Run(8);
}

TEST_F(AgentTest, ReportsAPeerThatFailed) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(3, 3);
  trainer_.EndRun(RunOutcome::Kind::kPeerFailed,
                  absl::UnavailableError("connection reset"), 1);
  const auto suspicion = coordinator_->Take(Message::kSuspicion);
  ASSERT_TRUE(suspicion.has_value());
  EXPECT_EQ(suspicion->suspicion().peer_rank(), 1);
  EXPECT_EQ(suspicion->suspicion().step(), 4);
  EXPECT_EQ(suspicion->suspicion().detail(), "connection reset");
}

TEST_F(AgentTest, ReportsItsOwnFailureWithTheExitCode) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  trainer_.set_prepare_status(absl::InvalidArgumentError("no such file"));
  coordinator_->SendAssignment(7);
  const auto failed = coordinator_->Take(Message::kFailed);
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->failed().exit_code(), 2);
  EXPECT_EQ(failed->failed().message(), "no such file");
}

TEST_F(AgentTest, AnswersATraceRequest) {
  trainer_.mutable_trace().Record({.name = "forward",
                                   .track = "compute",
                                   .step = 3,
                                   .end = MonotonicTime::FromNanos(9)});
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  v1::SessionResponse request;
  request.mutable_trace_request()->set_request_id(5);
  coordinator_->Send(request);
  const auto reply = coordinator_->Take(Message::kTraceReply);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->trace_reply().request_id(), 5);
  EXPECT_EQ(reply->trace_reply().trace().worker(), "w0");
  EXPECT_EQ(reply->trace_reply().trace().first_held_step(), 3);
  EXPECT_EQ(reply->trace_reply().trace().last_held_step(), 3);
  ASSERT_EQ(reply->trace_reply().trace().spans_size(), 1);
  EXPECT_EQ(reply->trace_reply().trace().spans(0).name(), "forward");
  EXPECT_EQ(reply->trace_reply().trace().spans(0).end_nanos(), 9);
}

TEST_F(AgentTest, ProbesThePeersThatItIsAskedAbout) {
  Start();
  const auto hello = coordinator_->Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_TRUE(hello->hello().probes());
  const auto there = Listener::Listen("127.0.0.1:0");
  auto gone = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(there.ok() && gone.ok());
  v1::SessionResponse request;
  v1::Probe& probe = *request.mutable_probe();
  probe.set_generation(7);
  probe.mutable_timeout()->set_seconds(60);
  v1::ProbePeer& first = *probe.add_peers();
  first.set_rank(1);
  first.set_data_address(there->address().ToString());
  v1::ProbePeer& second = *probe.add_peers();
  second.set_rank(3);
  second.set_data_address(gone->address().ToString());
  gone = absl::UnavailableError("closed");
  coordinator_->Send(request);
  const auto answer = coordinator_->Take(Message::kProbed);
  ASSERT_TRUE(answer.has_value());
  const v1::Probed& probed = answer->probed();
  EXPECT_EQ(probed.generation(), 7);
  ASSERT_EQ(probed.results_size(), 2);
  EXPECT_EQ(probed.results(0).peer_rank(), 1);
  EXPECT_TRUE(probed.results(0).reached()) << probed.results(0).detail();
  EXPECT_EQ(probed.results(1).peer_rank(), 3);
  EXPECT_FALSE(probed.results(1).reached());
  EXPECT_EQ(probed.results(1).failure(), v1::LINK_FAILURE_REFUSED);
}

TEST_F(AgentTest, AProbeEndsWithItsSession) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  v1::SessionResponse request;
  v1::Probe& probe = *request.mutable_probe();
  probe.set_generation(7);
  probe.mutable_timeout()->set_seconds(600);
  const DeafPort deaf;
  probe.add_peers()->set_data_address(deaf.address());
  coordinator_->Send(request);
  coordinator_->EndSession(absl::UnavailableError("restarts"));
  // It is not kept from attaching again, nor from its end.
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  agent_->Terminate("SIGTERM");
  EXPECT_EQ(agent_->AwaitEnd().code, ExitCode::kStopped);
}

TEST_F(AgentTest, SendsTheLinesOfItsLogThatItIsAskedFor) {
  Start();
  const auto hello = coordinator_->Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_TRUE(hello->hello().sends_logs());
  LogEvent(LogLevel::kWarning, "test.first");
  LogEvent(LogLevel::kWarning, "test.second", {{"number", 7}});
  v1::SessionResponse request;
  v1::LogRequest& asked = *request.mutable_log_request();
  asked.set_request_id(6);
  asked.set_max_bytes(1 << 20);
  asked.mutable_filter()->set_min_severity(v1::LOG_SEVERITY_WARNING);
  asked.mutable_filter()->set_tail(1);
  coordinator_->Send(request);
  const auto reply = coordinator_->Take(Message::kLogReply);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->log_reply().request_id(), 6);
  const v1::LogPage& page = reply->log_reply().page();
  ASSERT_EQ(page.lines_size(), 1);
  EXPECT_EQ(page.lines(0).event(), "test.second");
  EXPECT_THAT(page.lines(0).fields(), testing::EndsWith("number=7"));
  EXPECT_GE(page.last_sequence(), page.lines(0).sequence());
}

TEST_F(AgentTest, TrainsOnWhileTheCoordinatorIsAwayAndTellsItAfterwards) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  const int port = coordinator_->port();
  coordinator_.reset();
  trainer_.set_steps(10, 10);
  trainer_.EndRun(RunOutcome::Kind::kFinished);
  FakeCoordinator::Options options;
  options.port = port;
  coordinator_ = std::make_unique<FakeCoordinator>(options);
  const auto hello = coordinator_->Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->hello().generation(), 7);
  EXPECT_EQ(hello->hello().applied_step(), 10);
  EXPECT_EQ(hello->hello().incarnation(), 42u);
  const auto finished = coordinator_->Take(Message::kFinished);
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->finished().step(), 10);
}

TEST_F(AgentTest, AttachesAgainAfterItsLeaseExpired) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  coordinator_->EndSession(
      WithReason(absl::AbortedError("lease expired"), reason::kLeaseExpired));
  EXPECT_TRUE(coordinator_->Take(Message::kHello).has_value());
}

TEST_F(AgentTest, TrainsNoFurtherOnceItsLeaseHasExpired) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(4, 5);
  coordinator_->EndSession(
      WithReason(absl::AbortedError("lease expired"), reason::kLeaseExpired));
  EXPECT_TRUE(trainer_.AwaitCall("abort 7"));
  const auto hello = coordinator_->Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->hello().generation(), 7);
  EXPECT_EQ(hello->hello().held_job().job_id(), "mlp-1");
  EXPECT_EQ(hello->hello().held_job().world_size(), 1);
  coordinator_->SendRelease(7);
  EXPECT_TRUE(trainer_.AwaitCall("release"));
}

TEST_F(AgentTest, TellsAPauseUnasked) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(10, 10);
  v1::SessionResponse response;
  response.mutable_pause()->set_generation(7);
  coordinator_->Send(response);
  const auto halted = coordinator_->Take(Message::kHalted);
  ASSERT_TRUE(halted.has_value());
  EXPECT_EQ(halted->halted().generation(), 7);
  EXPECT_EQ(halted->halted().applied_step(), 10);
}

TEST_F(AgentTest, BeatsAtOnceWhenTheTrainerGetsOn) {
  FakeCoordinator::Options options;
  options.beat_interval_ms = 3'600'000;
  coordinator_ = std::make_unique<FakeCoordinator>(options);
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kBeat).has_value());
  Run(7);
  trainer_.Enter(TrainPhase::kTransfer);
  const auto beat = coordinator_->Take(Message::kBeat);
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->beat().generation(), 7);
  EXPECT_EQ(beat->beat().phase(), v1::PHASE_TRANSFER);
}

TEST_F(AgentTest, LeavesThePoolPolitely) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kBeat).has_value());
  agent_->Terminate("SIGTERM");
  const auto leaving = coordinator_->Take(Message::kLeaving);
  ASSERT_TRUE(leaving.has_value());
  EXPECT_TRUE(leaving->leaving().done());
  EXPECT_EQ(leaving->leaving().reason(), "SIGTERM");
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kStopped);
  EXPECT_FALSE(end.is_trainer_stuck);
  EXPECT_TRUE(coordinator_->AwaitHalfClose());
}

TEST_F(AgentTest, LeavesTrainingAtAStepThatAllAgreeOn) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_steps(6, 6);
  agent_->Terminate("SIGTERM");
  auto leaving = coordinator_->Take(Message::kLeaving);
  ASSERT_TRUE(leaving.has_value());
  EXPECT_FALSE(leaving->leaving().done());
  leaving = coordinator_->Take(Message::kLeaving);
  ASSERT_TRUE(leaving.has_value());
  EXPECT_TRUE(leaving->leaving().done());
  EXPECT_EQ(leaving->leaving().step(), 6);
  EXPECT_EQ(agent_->AwaitEnd().code, ExitCode::kStopped);
  EXPECT_TRUE(trainer_.AwaitCall("drain"));
}

TEST_F(AgentTest, TellsWhetherItIsAttached) {
  std::promise<void> attached;
  std::promise<void> detached;
  // It may attach again.
  bool was_attached = false;
  bool was_detached = false;
  AgentOptions options = Options(coordinator_->address());
  options.on_attached = [&](bool is_attached) {
    if (std::exchange(is_attached ? was_attached : was_detached, true)) return;
    (is_attached ? attached : detached).set_value();
  };
  Start(options);
  constexpr std::chrono::seconds kLong(20);
  EXPECT_EQ(attached.get_future().wait_for(kLong), std::future_status::ready);
  coordinator_.reset();
  EXPECT_EQ(detached.get_future().wait_for(kLong), std::future_status::ready);
  // Its callback uses variables of this test.
  agent_.reset();
}

TEST_F(AgentTest, EndsAtOnceOnASecondSignal) {
  AgentOptions options = Options(coordinator_->address());
  options.signal_window = absl::ZeroDuration();
  Start(options);
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_is_stuck(true);
  agent_->Terminate("SIGTERM");
  agent_->Terminate("SIGTERM");
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kStopped);
  EXPECT_TRUE(end.is_trainer_stuck);
  EXPECT_TRUE(trainer_.AwaitCall("abort 7"));
  trainer_.set_is_stuck(false);
}

TEST_F(AgentTest, NamesATrainerThatDoesNotReturn) {
  AgentOptions options = Options(coordinator_->address());
  options.drain_timeout = absl::Milliseconds(1);
  Start(options);
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  Run(7);
  trainer_.set_is_stuck(true);
  agent_->Terminate("SIGTERM");
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kStopped);
  EXPECT_THAT(end.message, HasSubstr("step boundary"));
  EXPECT_TRUE(end.is_trainer_stuck);
  trainer_.set_is_stuck(false);
}

TEST_F(AgentTest, GivesUpOnACoordinatorThatIsNotThere) {
  const std::string address = coordinator_->address();
  coordinator_.reset();
  AgentOptions options = Options(address);
  options.coordinator_timeout = absl::Milliseconds(300);
  Start(options);
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(end.message, HasSubstr("coordinator " + address));
  int lines = 0;
  for (const std::string& line : log_.lines()) {
    lines += line.find("session.down") != std::string::npos;
  }
  EXPECT_EQ(lines, 1);
}

TEST_F(AgentTest, GivesUpOnACoordinatorThatDoesNotAnswer) {
  FakeCoordinator::Options silent;
  silent.answers_hello = false;
  coordinator_ = std::make_unique<FakeCoordinator>(silent);
  AgentOptions options = Options(coordinator_->address());
  options.answer_timeout = absl::Milliseconds(50);
  options.coordinator_timeout = absl::Milliseconds(400);
  Start(options);
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(end.message, HasSubstr("did not answer within 50ms"));
}

TEST_F(AgentTest, NamesAnotherService) {
  FakeCoordinator::Options other;
  other.has_service = false;
  coordinator_ = std::make_unique<FakeCoordinator>(other);
  Start();
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kUsage);
  EXPECT_THAT(end.message, HasSubstr("not as a Ringmaster coordinator"));
}

TEST_F(AgentTest, EndsWhereItsNameIsInUse) {
  coordinator_->RefuseSessions(
      WithReason(absl::AlreadyExistsError("w0 is process 5 on node-2."),
                 reason::kWorkerNameInUse));
  Start();
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kUsage);
  EXPECT_THAT(end.message, HasSubstr("w0 is process 5 on node-2."));
}

TEST_F(AgentTest, EndsOnAProtocolThatItDoesNotSpeak) {
  FakeCoordinator::Options newer;
  newer.protocol = 9;
  coordinator_ = std::make_unique<FakeCoordinator>(newer);
  Start();
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kUsage);
  EXPECT_THAT(end.message, HasSubstr("protocol 9"));
}

TEST_F(AgentTest, EndsOnACoordinatorThatMakesNoSense) {
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kBeat).has_value());
  coordinator_->SendAssignment(7, /*rank=*/2, /*world_size=*/2);
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kInternal);
  EXPECT_THAT(end.message, HasSubstr("rank 2 of 2"));
}

TEST_F(AgentTest, EndsOnASessionThatDoesNotBeginWithAWelcome) {
  FakeCoordinator::Options silent;
  silent.answers_hello = false;
  coordinator_ = std::make_unique<FakeCoordinator>(silent);
  Start();
  ASSERT_TRUE(coordinator_->Take(Message::kHello).has_value());
  coordinator_->SendStart(7);
  const Agent::End end = agent_->AwaitEnd();
  EXPECT_EQ(end.code, ExitCode::kInternal);
  EXPECT_THAT(end.message, HasSubstr("no welcome"));
}

}  // namespace
}  // namespace ringmaster
