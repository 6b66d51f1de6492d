#include "server/coordinator/rpc/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "common/clock/testing/fake_clock.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/logging/testing/log_capture.h"
#include "common/protocol/member_table_hash.h"
#include "common/protocol/proto_time.h"
#include "common/status/reason.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/rpc/queries.h"
#include "server/coordinator/rpc/session_message.h"
#include "server/coordinator/rpc/testing/fake_session_stream.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeStatusWatcher final : public StatusWatcher {
 public:
  void Offer(std::shared_ptr<const v1::WatchStatusResponse> message) override {
    MutexLock lock(mutex_);
    offered_.push_back(message->status());
  }
  void End(const absl::Status& status) override { end.set_value(status); }
  bool has_waiting() const override { return false; }
  bool is_gone() const override { return false; }

  // Returns the journal's error in the newest status.
  std::string JournalError() {
    MutexLock lock(mutex_);
    return offered_.empty() ? ""
                            : offered_.back().coordinator().journal_error();
  }

  std::promise<absl::Status> end;

 private:
  Mutex mutex_;
  std::vector<v1::Status> offered_ GUARDED_BY(mutex_);
};

// Returns true if `holds` becomes true within 20 s; far longer than it ever
// takes.
bool Becomes(const std::function<bool()>& holds) {
  const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(20);
  while (!holds()) {
    if (Clock::Real().Now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Stands for a worker: its stream records the messages that it is sent.
struct FakeWorker {
  std::shared_ptr<FakeSessionStream> stream =
      std::make_shared<FakeSessionStream>();
  SessionId session = 0;
};

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() { Restart(); }
  ~RuntimeTest() override {
    runtime_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  void Restart() {
    runtime_.reset();
    auto runtime = CoordinatorRuntime::Start({.config = config_,
                                              .limits = limits_,
                                              .state_dir = state_dir_,
                                              .version = "test",
                                              .clock = &clock_});
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
  }

  // The answer comes once the fail points are disarmed.
  std::future<absl::StatusOr<std::string>> SubmitToADiskThatHangs() {
    FailPoint::Arm("journal.sync", FailPoint::Action::kHang);
    std::future<absl::StatusOr<std::string>> submitted =
        std::async(std::launch::async, [this] { return Submit(1); });
    EXPECT_TRUE(
        Becomes([] { return FailPoint::HangingCount("journal.sync") > 0; }));
    return submitted;
  }

  FakeWorker Connect() {
    FakeWorker worker;
    worker.session = runtime_->OpenSession(worker.stream, "10.0.0.7");
    return worker;
  }

  void Say(const FakeWorker& worker, const v1::SessionRequest& message) {
    runtime_->Receive(worker.session,
                      ParseSessionMessage(worker.session, message, "10.0.0.7"));
  }

  static v1::SessionRequest HelloOf(const std::string& name,
                                    const std::string& host = "node-1",
                                    int protocol_max = kNewestProtocol) {
    v1::SessionRequest message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_name(name);
    hello.set_incarnation(std::hash<std::string>()(name) | 1);
    hello.set_role(v1::ROLE_WORKER);
    hello.set_protocol_min(1);
    hello.set_protocol_max(protocol_max);
    hello.set_host(host);
    hello.set_host_key(host);
    hello.set_pid(100);
    hello.set_data_port(29500);
    return message;
  }

  FakeWorker Join(const std::string& name, const std::string& host = "node-1",
                  int protocol_max = kNewestProtocol) {
    FakeWorker worker = Connect();
    Say(worker, HelloOf(name, host, protocol_max));
    EXPECT_EQ(worker.stream->Take().welcome().protocol(), protocol_max);
    return worker;
  }

  // Submits a job for `workers` workers and returns its id, or the error.
  absl::StatusOr<std::string> Submit(int workers, int most = 0) {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("digits");
    spec.mutable_workers()->set_min(workers);
    if (most > 0) {
      spec.mutable_workers()->set_max(most);
      spec.mutable_workers()->mutable_settle();
    }
    spec.mutable_train()->mutable_model()->mutable_mlp();
    spec.mutable_train()->mutable_data()->mutable_synthetic();
    spec.mutable_train()->set_steps(10);
    std::promise<absl::StatusOr<std::string>> answer;
    const absl::Status posted =
        runtime_->Submit(*ParseSubmit(request),
                         [&answer](const absl::Status& status,
                                   const CoordinatorView&, const Job* job) {
                           if (!status.ok()) return answer.set_value(status);
                           answer.set_value(job->id);
                         });
    if (!posted.ok()) return posted;
    return answer.get_future().get();
  }

  absl::Status Cancel(const std::string& job) {
    CancelRequested request;
    request.job = job;
    request.reason = "enough";
    std::promise<absl::Status> answer;
    const absl::Status posted = runtime_->Cancel(
        std::move(request),
        [&answer](const absl::Status& status, const CoordinatorView&,
                  const Job*) { answer.set_value(status); });
    if (!posted.ok()) return posted;
    return answer.get_future().get();
  }

  v1::Status Status() {
    std::promise<v1::Status> answer;
    EXPECT_TRUE(runtime_
                    ->Ask([&answer](const CoordinatorView& view) {
                      answer.set_value(StatusProto(view.Status()));
                    })
                    .ok());
    return answer.get_future().get();
  }

  FakeClock clock_;
  Limits limits_;
  Config config_ = Config::FromFailureBudget(absl::Seconds(2));
  const std::string state_dir_ =
      std::string(std::getenv("TEST_TMPDIR")) + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::unique_ptr<CoordinatorRuntime> runtime_;
};

TEST_F(RuntimeTest, WelcomesAWorkerWithTheSessionsTerms) {
  const FakeWorker worker = Connect();
  Say(worker, HelloOf("w0"));
  const v1::SessionResponse message = worker.stream->Take();
  ASSERT_TRUE(message.has_welcome());
  EXPECT_EQ(message.welcome().coordinator_incarnation(),
            runtime_->identity().incarnation);
  EXPECT_EQ(message.welcome().protocol(), kNewestProtocol);
  EXPECT_EQ(message.welcome().observed_host(), "10.0.0.7");
  EXPECT_EQ(FromProto(message.welcome().beat_interval()),
            config_.beat_interval);
  EXPECT_EQ(FromProto(message.welcome().lease()), config_.lease);
  EXPECT_EQ(FromProto(message.welcome().state_wait()), config_.state_wait);
  EXPECT_TRUE(worker.stream->AwaitReads(1));
}

TEST_F(RuntimeTest, FirstMessageMustBeHello) {
  const FakeWorker worker = Connect();
  v1::SessionRequest beat;
  beat.mutable_beat();
  Say(worker, beat);
  const absl::Status end = worker.stream->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(end), reason::kSessionProtocolViolation);
}

TEST_F(RuntimeTest, HelloComesOnce) {
  const FakeWorker worker = Join("w0");
  Say(worker, HelloOf("w0"));
  EXPECT_EQ(ReasonOf(worker.stream->AwaitEnd()),
            reason::kSessionProtocolViolation);
  EXPECT_EQ(Status().workers_size(), 0);
}

TEST_F(RuntimeTest, MalformedMessageEndsTheSessionAndRemovesTheWorker) {
  const FakeWorker worker = Join("w0");
  v1::SessionRequest beat;
  beat.mutable_beat()->set_step(-1);
  Say(worker, beat);
  EXPECT_THAT(std::string(worker.stream->AwaitEnd().message()),
              HasSubstr("beat.step"));
  EXPECT_EQ(Status().workers_size(), 0);
}

TEST_F(RuntimeTest, SilentStreamEndsAfterTheLeaseAndMayTryAgain) {
  const FakeWorker silent = Connect();
  clock_.AwaitWaitFor(clock_.Now() + config_.lease);
  clock_.Advance(config_.lease);
  const absl::Status end = silent.stream->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(end), "");
  EXPECT_THAT(std::string(end.message()), HasSubstr("no hello"));
}

TEST_F(RuntimeTest, WorkerThatFallsSilentLosesItsLease) {
  const FakeWorker worker = Join("w0");
  clock_.Advance(config_.lease + absl::Milliseconds(1));
  EXPECT_EQ(ReasonOf(worker.stream->AwaitEnd()), reason::kLeaseExpired);
}

TEST_F(RuntimeTest, GangOfTwoIsAssignedAndStarted) {
  const FakeWorker workers[] = {Join("w0"), Join("w1")};
  const absl::StatusOr<std::string> job = Submit(2);
  ASSERT_TRUE(job.ok()) << job.status();
  v1::Assignment assignments[2];
  for (int rank = 0; rank < 2; ++rank) {
    const v1::SessionResponse message = workers[rank].stream->Take();
    ASSERT_TRUE(message.has_assignment()) << message.ShortDebugString();
    assignments[rank] = message.assignment();
    EXPECT_EQ(assignments[rank].job_id(), *job);
    EXPECT_EQ(assignments[rank].self().rank(), rank);
    EXPECT_EQ(assignments[rank].self().worker(), "w" + std::to_string(rank));
    ASSERT_EQ(assignments[rank].peers_size(), 1);
    EXPECT_EQ(assignments[rank].peers(0).rank(), 1 - rank);
    EXPECT_EQ(assignments[rank].peers(0).data_address(), "10.0.0.7:29500");
    ASSERT_EQ(assignments[rank].ranks_per_host_size(), 1);
    EXPECT_EQ(assignments[rank].ranks_per_host(0), 2);
    EXPECT_EQ(assignments[rank].world_size(), 2);
    EXPECT_EQ(assignments[rank].frame_integrity(), v1::FRAME_INTEGRITY_CRC32C);
    EXPECT_EQ(assignments[rank].local_world_size(), 2);
    EXPECT_EQ(assignments[rank].spec().train().steps(), 10);
    EXPECT_EQ(assignments[rank].self().data_address(), "10.0.0.7:29500");
    EXPECT_EQ(FromProto(assignments[rank].connect_timeout()),
              config_.connect_timeout);
  }
  EXPECT_EQ(assignments[0].secret().size(), 32u);
  EXPECT_EQ(assignments[0].secret(), assignments[1].secret());
  EXPECT_EQ(assignments[0].table_hash(), assignments[1].table_hash());
  EXPECT_EQ(MemberTableHash(Status().jobs(0).members()),
            assignments[0].table_hash());

  v1::SessionRequest prepared;
  prepared.mutable_prepared()->set_generation(assignments[0].generation());
  for (const FakeWorker& worker : workers) Say(worker, prepared);
  for (const FakeWorker& worker : workers) {
    EXPECT_EQ(worker.stream->Take().start().generation(),
              assignments[0].generation());
  }
  EXPECT_EQ(Status().jobs(0).state(), v1::JOB_STATE_RUNNING);
}

// A coordinator that was started with the wrong --data_encryption hears from all its
// workers each second.
TEST_F(RuntimeTest, HellosThatAreRefusedAreALineInAWhile) {
  LogCapture log;
  const auto lines = [&log] {
    std::vector<std::string> lines;
    for (const std::string& line : log.lines()) {
      if (absl::StrContains(line, "session.refused")) lines.push_back(line);
    }
    return lines;
  };
  const auto try_to_join = [this](const std::string& name) {
    FakeWorker worker = Connect();
    v1::SessionRequest hello = HelloOf(name);
    hello.mutable_hello()->set_requires_encryption(true);
    Say(worker, hello);
    EXPECT_FALSE(worker.stream->AwaitEnd().ok());
  };
  for (const char* const name : {"w0", "w1", "w2"}) try_to_join(name);
  EXPECT_TRUE(Becomes([&] { return !lines().empty(); }));
  clock_.Advance(absl::Seconds(10));
  try_to_join("w3");
  runtime_.reset();  // which writes what is left
  // The log is late, so which of them it counts is not certain.
  EXPECT_THAT(lines(),
              ElementsAre(AllOf(HasSubstr("W session.refused host=10.0.0.7"),
                                HasSubstr("--data_encryption=required"),
                                HasSubstr("others=0")),
                          HasSubstr("W session.refused host=10.0.0.7")));
}

// Its GPU may not reach the others' in clear: it must find that out before the
// members stop for it.
TEST_F(RuntimeTest, ANewcomerOnAnotherHostRehearsesWhatItWouldBeAMemberOf) {
  config_ = Config::FromFailureBudget(absl::Minutes(10));
  config_.requires_encryption = true;
  Restart();
  const auto join = [&](const std::string& name, const std::string& host) {
    FakeWorker worker = Connect();
    v1::SessionRequest hello = HelloOf(name, host);
    hello.mutable_hello()->set_requires_encryption(true);
    hello.mutable_hello()->set_rehearses(true);
    Say(worker, hello);
    EXPECT_TRUE(worker.stream->Take().welcome().requires_encryption());
    return worker;
  };
  const FakeWorker members[] = {join("w0", "node-1"), join("w1", "node-1")};
  ASSERT_TRUE(Submit(2, /*most=*/4).ok());
  clock_.Advance(
      absl::Seconds(2));  // workers of the one before have had their time
  v1::SessionRequest prepared;
  for (const FakeWorker& member : members) {
    prepared.mutable_prepared()->set_generation(
        member.stream->Take().assignment().generation());
  }
  for (const FakeWorker& member : members) Say(member, prepared);
  for (const FakeWorker& member : members)
    EXPECT_TRUE(member.stream->Take().has_start());
  v1::SessionRequest beat;
  beat.mutable_beat()->set_generation(prepared.prepared().generation());
  beat.mutable_beat()->set_step(1);
  beat.mutable_beat()->set_phase(v1::PHASE_STEP);
  for (const FakeWorker& member : members) Say(member, beat);

  const FakeWorker elsewhere = join("w2", "node-2");
  clock_.Advance(config_.join_settle);
  const v1::Assignment far = elsewhere.stream->Take().assignment();
  EXPECT_TRUE(far.rehearsal());
  EXPECT_EQ(far.frame_integrity(), v1::FRAME_INTEGRITY_AES_256_GCM);
  EXPECT_THAT(far.ranks_per_host(), ElementsAre(2, 1));
}

TEST_F(RuntimeTest, FramesAreNotCheckedBesideAWorkerThatCannot) {
  const FakeWorker workers[] = {Join("new"), Join("old", "node-2", 1)};
  ASSERT_TRUE(Submit(2).ok());
  for (const FakeWorker& worker : workers) {
    const v1::SessionResponse message = worker.stream->Take();
    ASSERT_TRUE(message.has_assignment()) << message.ShortDebugString();
    EXPECT_EQ(message.assignment().frame_integrity(),
              v1::FRAME_INTEGRITY_UNSPECIFIED);
  }
}

TEST_F(RuntimeTest, TheRanksOfAHostFollowOneAnotherHoweverItsWorkersJoin) {
  const FakeWorker workers[] = {Join("w0", "node-1"), Join("w1", "node-2"),
                                Join("w2", "node-1"), Join("w3", "node-3"),
                                Join("w4", "node-2"), Join("w5", "node-1")};
  const absl::StatusOr<std::string> job = Submit(6);
  ASSERT_TRUE(job.ok()) << job.status();
  std::vector<std::string> hosts(6);
  for (const FakeWorker& worker : workers) {
    const v1::SessionResponse message = worker.stream->Take();
    ASSERT_TRUE(message.has_assignment()) << message.ShortDebugString();
    const v1::Assignment& assignment = message.assignment();
    ASSERT_LT(assignment.self().rank(), 6);
    hosts[static_cast<size_t>(assignment.self().rank())] =
        assignment.self().host();
    EXPECT_THAT(assignment.ranks_per_host(), ElementsAre(3, 2, 1));
  }
  EXPECT_THAT(hosts, ElementsAre("node-1", "node-1", "node-1", "node-2",
                                 "node-2", "node-3"));
}

TEST_F(RuntimeTest, BrokenStreamHaltsTheOthers) {
  const FakeWorker lost = Join("w0");
  const FakeWorker survivor = Join("w1");
  ASSERT_TRUE(Submit(2).ok());
  const int64_t generation = survivor.stream->Take().assignment().generation();
  runtime_->SessionEnded(lost.session, "the connection broke");
  const v1::SessionResponse message = survivor.stream->Take();
  ASSERT_TRUE(message.has_halt()) << message.ShortDebugString();
  EXPECT_EQ(message.halt().generation(), generation);
  EXPECT_EQ(message.halt().verdict().worker(), "w0");
  EXPECT_EQ(message.halt().verdict().evidence(0).kind(),
            v1::EVIDENCE_KIND_STREAM_BROKEN);
}

TEST_F(RuntimeTest, AMalformedMessageOfAMemberIsAFalseReport) {
  const FakeWorker liar = Join("w0");
  const FakeWorker survivor = Join("w1");
  ASSERT_TRUE(Submit(2).ok());
  EXPECT_TRUE(survivor.stream->Take().has_assignment());
  v1::SessionRequest beat;
  beat.mutable_beat()->set_step(-1);
  Say(liar, beat);
  const v1::SessionResponse message = survivor.stream->Take();
  ASSERT_TRUE(message.has_halt()) << message.ShortDebugString();
  const v1::Verdict& verdict = message.halt().verdict();
  EXPECT_EQ(verdict.worker(), "w0");
  EXPECT_EQ(verdict.evidence(0).kind(), v1::EVIDENCE_KIND_FALSE_REPORT);
  EXPECT_THAT(verdict.summary(),
              HasSubstr("beat.step must not be negative, got -1"));
}

TEST_F(RuntimeTest, AnIncidentsLogLineHasItsCulpritAsFields) {
  const std::string path = state_dir_ + ".log";
  ASSERT_TRUE(InitLogging({.format = LogFormat::kJson, .file = path}).ok());
  const FakeWorker first = Join("w0");
  const FakeWorker second = Join("w1");
  ASSERT_TRUE(Submit(2).ok());
  EXPECT_TRUE(first.stream->Take().has_assignment());
  EXPECT_TRUE(second.stream->Take().has_assignment());
  runtime_->SessionEnded(second.session, "connection reset");
  EXPECT_TRUE(first.stream->Take().has_halt());
  runtime_.reset();  // Waits for the log.
  ASSERT_TRUE(InitLogging({}).ok());
  std::ostringstream log;
  log << std::ifstream(path).rdbuf();
  EXPECT_THAT(log.str(), HasSubstr("\"event\":\"worker.lost\""));
  for (const char* field :
       {"\"worker\":\"w1\"", "\"rank\":1", "\"host\":\"node-1\"", "\"pid\":100",
        "\"evidence\":\"STREAM_BROKEN by coordinator: its stream broke: "
        "connection reset\""}) {
    EXPECT_THAT(log.str(), HasSubstr(field));
  }
}

TEST_F(RuntimeTest, QueuedJobsSurviveARestart) {
  const absl::StatusOr<std::string> job = Submit(4);
  ASSERT_TRUE(job.ok());
  const uint64_t before = runtime_->identity().incarnation;
  Restart();
  EXPECT_NE(runtime_->identity().incarnation, before);
  const v1::Status status = Status();
  ASSERT_EQ(status.jobs_size(), 1);
  EXPECT_EQ(status.jobs(0).id(), *job);
  EXPECT_EQ(status.jobs(0).spec().train().steps(), 10);
}

TEST_F(RuntimeTest, EventsAreNumberedAndKept) {
  Join("w0");
  ASSERT_TRUE(Submit(1).ok());
  std::promise<std::vector<std::string>> types;
  ASSERT_TRUE(runtime_
                  ->Ask([&types](const CoordinatorView& view) {
                    std::vector<std::string> found;
                    for (const v1::Event& event :
                         view.events.After(0, "", 100, 1 << 20)) {
                      found.push_back(event.type());
                    }
                    types.set_value(found);
                  })
                  .ok());
  EXPECT_THAT(types.get_future().get(), Contains(HasSubstr("worker.")));
}

TEST_F(RuntimeTest, TraceComesFromTheMembers) {
  const FakeWorker worker = Join("w0");
  const absl::StatusOr<std::string> job = Submit(1);
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(worker.stream->Take().has_assignment());
  std::promise<absl::StatusOr<v1::GetTraceResponse>> answer;
  ASSERT_TRUE(runtime_
                  ->GatherTrace(*job, 1, 2,
                                [&answer](auto result) {
                                  answer.set_value(std::move(result));
                                })
                  .ok());
  const v1::SessionResponse request = worker.stream->Take();
  ASSERT_TRUE(request.has_trace_request());
  v1::SessionRequest reply;
  reply.mutable_trace_reply()->set_request_id(
      request.trace_request().request_id());
  runtime_->ReceiveAnswer(
      worker.session, EventBody(HeardFrom{.session = worker.session}), reply);
  const absl::StatusOr<v1::GetTraceResponse> response =
      answer.get_future().get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->ranks(0).worker(), "w0");
}

TEST_F(RuntimeTest, TraceOfASilentMemberEndsInTime) {
  const FakeWorker worker = Join("w0");
  const absl::StatusOr<std::string> job = Submit(1);
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(worker.stream->Take().has_assignment());
  std::promise<absl::StatusOr<v1::GetTraceResponse>> answer;
  ASSERT_TRUE(runtime_
                  ->GatherTrace(*job, 0, 0,
                                [&answer](auto result) {
                                  answer.set_value(std::move(result));
                                })
                  .ok());
  ASSERT_TRUE(worker.stream->Take().has_trace_request());
  clock_.Advance(kGatherBudget);
  const absl::StatusOr<v1::GetTraceResponse> response =
      answer.get_future().get();
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->missing_workers(0), "w0");
}

TEST_F(RuntimeTest, UnknownJobHasNoTrace) {
  std::promise<absl::StatusOr<v1::GetTraceResponse>> answer;
  ASSERT_TRUE(runtime_
                  ->GatherTrace("none", 0, 0,
                                [&answer](auto result) {
                                  answer.set_value(std::move(result));
                                })
                  .ok());
  EXPECT_EQ(ReasonOf(answer.get_future().get().status()), reason::kJobNotFound);
}

TEST_F(RuntimeTest, ShutdownEndsSessionsAndWatches) {
  const FakeWorker greeted = Join("w0");
  const FakeWorker silent = Connect();
  const auto watcher = std::make_shared<FakeStatusWatcher>();
  runtime_->WatchStatus(watcher);
  Status();  // the watch has been taken on
  runtime_->Shutdown();
  EXPECT_EQ(ReasonOf(greeted.stream->AwaitEnd()), reason::kShuttingDown);
  EXPECT_EQ(ReasonOf(silent.stream->AwaitEnd()), reason::kShuttingDown);
  EXPECT_EQ(ReasonOf(watcher->end.get_future().get()), reason::kShuttingDown);
}

TEST_F(RuntimeTest, AfterShutdownNothingIsTakenOn) {
  runtime_->Shutdown();
  EXPECT_EQ(ReasonOf(Connect().stream->AwaitEnd()), reason::kShuttingDown);
  EXPECT_EQ(ReasonOf(Submit(1).status()), reason::kShuttingDown);
  const auto watcher = std::make_shared<FakeStatusWatcher>();
  runtime_->WatchStatus(watcher);
  EXPECT_EQ(ReasonOf(watcher->end.get_future().get()), reason::kShuttingDown);
}

TEST_F(RuntimeTest, FailingJournalRefusesJobsAndSaysSoUntilItWorks) {
  FailPoint::Arm("journal.commit", FailPoint::Action::kError);
  const absl::Status refused = Submit(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), reason::kJournalUnavailable);
  EXPECT_NE(Status().coordinator().journal_error(), "");
  FailPoint::DisarmAll();
  // The journal probes the disk from time to time, in a thread of its own.
  EXPECT_TRUE(Becomes([this] {
    clock_.Advance(absl::Seconds(1));
    return Status().coordinator().journal_error().empty();
  }));
  EXPECT_TRUE(Submit(1).ok());
  EXPECT_EQ(Status().jobs_size(), 1);
}

TEST_F(RuntimeTest, AWatchIsToldOfADiskThatHangs) {
  const auto watcher = std::make_shared<FakeStatusWatcher>();
  runtime_->WatchStatus(watcher);
  std::future<absl::StatusOr<std::string>> submitted = SubmitToADiskThatHangs();
  // Only time passes.
  (void)Status();
  EXPECT_EQ(watcher->JournalError(), "");
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Becomes([&] { return !watcher->JournalError().empty(); }));
  EXPECT_THAT(watcher->JournalError(),
              HasSubstr("for the disk to write the journal"));
  FailPoint::DisarmAll();
  EXPECT_TRUE(submitted.get().ok());
  clock_.Advance(kPublishInterval);
  EXPECT_TRUE(Becomes([&] { return watcher->JournalError().empty(); }));
}

TEST_F(RuntimeTest, HealthIsTheCoresAndNamesADiskThatHangs) {
  Health health = runtime_->CheckHealth(absl::Seconds(30));
  EXPECT_TRUE(health.live.ok()) << health.live;
  EXPECT_TRUE(health.ready.ok()) << health.ready;

  std::future<absl::StatusOr<std::string>> submitted = SubmitToADiskThatHangs();
  clock_.Advance(absl::Seconds(3));
  health = runtime_->CheckHealth(absl::Seconds(30));
  EXPECT_TRUE(health.live.ok()) << health.live;
  EXPECT_THAT(
      std::string(health.ready.message()),
      HasSubstr("/journal.sqlite3: a decision has waited 3s for the disk"));
  FailPoint::DisarmAll();
  EXPECT_TRUE(submitted.get().ok());
  EXPECT_TRUE(runtime_->CheckHealth(absl::Seconds(30)).ready.ok());

  std::promise<void> began;
  std::promise<void> may_return;
  ASSERT_TRUE(runtime_
                  ->Ask([&](const CoordinatorView&) {
                    began.set_value();
                    may_return.get_future().wait();
                  })
                  .ok());
  began.get_future().wait();
  health = runtime_->CheckHealth(absl::Milliseconds(10));
  EXPECT_EQ(health.live.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(health.ready.ok());
  may_return.set_value();
  EXPECT_TRUE(runtime_->CheckHealth(absl::Seconds(30)).live.ok());
}

TEST_F(RuntimeTest, RefusesOneJobTooMany) {
  config_.max_queued_jobs = 2;
  Restart();
  const absl::StatusOr<std::string> first = Submit(1);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Submit(1).ok());
  EXPECT_EQ(Submit(1).status(),
            absl::ResourceExhaustedError(
                "the coordinator has 2 jobs that have not ended, as many as "
                "--max_queued_jobs allows; try again later"));
  EXPECT_TRUE(Cancel(*first).ok());
  EXPECT_TRUE(Submit(1).ok());
}

TEST_F(RuntimeTest, AJobThatWaitsForTheDiskCountsAsOne) {
  config_.max_queued_jobs = 1;
  Restart();
  std::future<absl::StatusOr<std::string>> waits = SubmitToADiskThatHangs();
  EXPECT_THAT(std::string(Submit(1).status().message()),
              HasSubstr("has 1 jobs that have not ended"));
  FailPoint::DisarmAll();
  EXPECT_TRUE(waits.get().ok());
}

TEST_F(RuntimeTest, RefusesOneSessionTooManyButNotOneThatComesBack) {
  limits_.sessions = 2;
  Restart();
  const FakeWorker w0 = Join("w0");
  const FakeWorker w1 = Join("w1");
  const FakeWorker refused = Connect();
  Say(refused, HelloOf("w2"));
  const absl::Status end = refused.stream->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(end.message(),
            "the coordinator has 2 sessions, as many as --max_sessions allows; "
            "try again later");
  // The same process, whose old stream has not been missed yet.
  const FakeWorker again = Connect();
  Say(again, HelloOf("w1"));
  EXPECT_TRUE(again.stream->Take().has_welcome());
  runtime_->SessionEnded(w0.session, "left");
  EXPECT_TRUE(Becomes([this] { return Status().workers_size() == 1; }));
  Join("w3");
}

TEST_F(RuntimeTest, ASilentStreamTooManyEndsTheOldest) {
  const FakeWorker oldest = Connect();
  std::vector<FakeWorker> others;
  for (int i = 0; i < 1000; ++i) others.push_back(Connect());
  EXPECT_EQ(oldest.stream->AwaitEnd().code(), absl::StatusCode::kUnavailable);
  // The others have their time.
  Say(others.front(), HelloOf("w0"));
  EXPECT_TRUE(others.front().stream->Take().has_welcome());
}

TEST_F(RuntimeTest, RefusesOneWatchTooMany) {
  limits_.watches = 1;
  Restart();
  const auto first = std::make_shared<FakeStatusWatcher>();
  runtime_->WatchStatus(first);
  const auto second = std::make_shared<FakeStatusWatcher>();
  runtime_->WatchStatus(second);
  EXPECT_EQ(second->end.get_future().get(),
            absl::ResourceExhaustedError(
                "the coordinator has 1 watches, as many as --max_watches "
                "allows; try again later"));
}

TEST_F(RuntimeTest, RefusesOneCallTooManyWhileTheDiskHangs) {
  limits_.waiting_calls = 1;
  Restart();
  std::future<absl::StatusOr<std::string>> waits = SubmitToADiskThatHangs();
  EXPECT_EQ(Submit(1).status(),
            absl::ResourceExhaustedError(
                "the coordinator has 1 calls that wait for the disk, as many "
                "as --max_waiting_calls allows; try again later"));
  EXPECT_EQ(Cancel("job-1").code(), absl::StatusCode::kResourceExhausted);
  FailPoint::DisarmAll();
  EXPECT_TRUE(waits.get().ok());
  EXPECT_TRUE(Submit(1).ok());
}

TEST_F(RuntimeTest, RefusesOneCallTooManyWhileTheCoreIsBusy) {
  limits_.waiting_calls = 1;
  Restart();
  std::promise<void> began;
  std::promise<void> may_return;
  ASSERT_TRUE(runtime_
                  ->Ask([&](const CoordinatorView&) {
                    began.set_value();
                    may_return.get_future().wait();
                  })
                  .ok());
  began.get_future().wait();
  EXPECT_TRUE(runtime_->Ask([](const CoordinatorView&) {}).ok());
  EXPECT_EQ(runtime_->Ask([](const CoordinatorView&) {}),
            absl::ResourceExhaustedError(
                "the coordinator has 1 waiting calls, as many as "
                "--max_waiting_calls allows; try again later"));
  may_return.set_value();
}

TEST_F(RuntimeTest, TheJournalKeepsAsManyEndedJobsAsTheState) {
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<std::string> job = Submit(1);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(Cancel(*job).ok());
  }
  runtime_.reset();
  Config config = config_;
  config.max_ended_jobs = 1;
  ASSERT_TRUE(
      CoordinatorRuntime::Start({.config = config, .state_dir = state_dir_})
          .ok());
  const auto journal = Journal::Open({.state_dir = state_dir_});
  ASSERT_TRUE(journal.ok()) << journal.status();
  const auto records = (*journal)->Load();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(
      std::count_if(records->begin(), records->end(),
                    [](const JournalRecord& record) {
                      return std::holds_alternative<JobCreatedRecord>(record);
                    }),
      1);
}

TEST_F(RuntimeTest, StateDirectoryInUseIsAUsageError) {
  const auto second = CoordinatorRuntime::Start(
      {.config = config_, .state_dir = state_dir_, .clock = &clock_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RuntimeTest, BadConfigIsRefused) {
  const auto runtime = CoordinatorRuntime::Start(
      {.config = Config::FromFailureBudget(absl::Milliseconds(10)),
       .state_dir = state_dir_});
  EXPECT_EQ(runtime.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringmaster::coordinator
