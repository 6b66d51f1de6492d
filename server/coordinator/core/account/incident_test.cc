#include "server/coordinator/core/account/incident.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/core.h"

namespace ringmaster::coordinator {
namespace {

v1::ProcessEnd EndOf(int64_t pid, int exit_code, int signal) {
  v1::ProcessEnd end;
  end.set_pid(pid);
  end.set_exit_code(exit_code);
  end.set_signal(signal);
  return end;
}

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A core with a journal that always works, workers that do as told, and a clock
// in milliseconds.
class IncidentTest : public ::testing::Test {
 protected:
  IncidentTest() : core_(Config::FromFailureBudget(absl::Seconds(2))) {}

  void Do(Event event) {
    std::deque<Event> events = {std::move(event)};
    while (!events.empty()) {
      for (Action& action : core_.Step(events.front(), now_)) {
        if (const auto* persist = std::get_if<Persist>(&action)) {
          events.emplace_back(Persisted{persist->token});
        } else if (const auto* emitted = std::get_if<EmitEvent>(&action)) {
          events_.push_back(emitted->event);
        } else if (const auto* halt = std::get_if<SendHalt>(&action)) {
          halts_.push_back(*halt);
        }
      }
      events.pop_front();
    }
  }

  void After(int milliseconds) { now_ += absl::Milliseconds(milliseconds); }

  void Join(const std::string& name,
            std::optional<v1::ProcessEnd> predecessor = std::nullopt) {
    HelloReceived hello;
    hello.session = sessions_[name] = ++last_session_;
    hello.name = name;
    hello.incarnation = hello.session;
    hello.host = hello.host_key = "h-" + name;
    hello.pid = 100 + static_cast<int64_t>(hello.session);
    hello.predecessor = predecessor;
    Do(hello);
  }

  void Beat(const std::string& name, int64_t step) {
    Do(BeatReceived{sessions_[name], job().generation, step, v1::PHASE_STEP,
                    step, -1, 0, v1::TrainingFigures{}});
  }

  void Prepare(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      Do(PreparedReceived{sessions_[name], job().generation, 1, 1, "same"});
    }
  }

  void Halted(const std::string& name, int64_t step) {
    Do(HaltedReceived{sessions_[name], job().generation, step, step});
  }

  // A job of at least `min` of a, b, c trains and has made 12 steps.
  void Train(int min) {
    Do(Tick{});
    for (const char* name : {"a", "b", "c"}) Join(name);
    SubmitRequested submit;
    submit.name = "j";
    submit.min_workers = min;
    submit.max_workers = 3;
    submit.total_steps = 100;
    Do(submit);
    Prepare({"a", "b", "c"});
    After(1000);
    for (const char* name : {"a", "b", "c"}) Beat(name, 12);
    ASSERT_EQ(job().state(), v1::JOB_STATE_RUNNING);
  }

  const Job& job() const { return core_.state().jobs.at(1); }

  const v1::Event* Last(const std::string& type) const {
    for (auto it = events_.rbegin(); it != events_.rend(); ++it) {
      if (it->type() == type) return &*it;
    }
    return nullptr;
  }

  CoordinatorCore core_;
  MonotonicTime now_ = MonotonicTime::FromNanos(1'000'000'000);
  SessionId last_session_ = 0;
  std::map<std::string, SessionId> sessions_;
  std::vector<v1::Event> events_;
  std::vector<SendHalt> halts_;
};

TEST_F(IncidentTest, CostsAreByPhaseFromTheLastSignOfLifeToTheNextStep) {
  Train(2);
  After(120);
  Beat("a", 13);
  After(180);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  ASSERT_THAT(job().incidents, SizeIs(1));
  After(7);
  Halted("a", 13);
  After(4);
  Halted("c", 13);
  ASSERT_EQ(job().state(), v1::JOB_STATE_PREPARING);
  After(30);
  Prepare({"a", "c"});
  ASSERT_EQ(job().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Last("job.resumed"), nullptr);
  After(50);
  Beat("a", 14);

  const v1::Incident& incident = job().incidents.front();
  EXPECT_TRUE(incident.is_over());
  EXPECT_FALSE(incident.is_wanted());
  EXPECT_EQ(incident.number(), 1);
  EXPECT_EQ(incident.verdict().worker(), "b");
  EXPECT_EQ(incident.verdict().rank(), 1);
  // The time counts from a's progress, which it made with b alone.
  EXPECT_EQ(FromProto(incident.cost().detect()), absl::Milliseconds(180));
  EXPECT_EQ(FromProto(incident.cost().halt()), absl::Milliseconds(11));
  EXPECT_EQ(FromProto(incident.cost().assign()), absl::ZeroDuration());
  EXPECT_EQ(FromProto(incident.cost().connect()), absl::Milliseconds(30));
  EXPECT_EQ(FromProto(incident.cost().first_step()), absl::Milliseconds(50));
  EXPECT_EQ(incident.world_size_before(), 3);
  EXPECT_EQ(incident.world_size_after(), 2);
  EXPECT_EQ(incident.resume_step(), 13);
  EXPECT_EQ(incident.lost_steps(), 0);
  const v1::Event* resumed = Last("job.resumed");
  ASSERT_NE(resumed, nullptr);
  EXPECT_EQ(resumed->severity(), v1::EVENT_SEVERITY_INFO);
  EXPECT_THAT(
      resumed->message(),
      HasSubstr("committed step 14, 271 ms after worker b (rank 1, host h-b, "
                "pid 102) was lost"));
  EXPECT_THAT(resumed->message(),
              HasSubstr("(detect 180 ms, halt 11 ms, assign 0 ms, connect 30 "
                        "ms, first step 50 ms)"));
  // The members that were halted got the same verdict.
  ASSERT_FALSE(halts_.empty());
  EXPECT_EQ(halts_.back().verdict.DebugString(),
            incident.verdict().DebugString());
}

TEST_F(IncidentTest, TheGoodputOfARecoveryAddsUp) {
  Train(2);
  After(500);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  After(20);
  Halted("a", 12);
  Halted("c", 12);
  After(30);
  Prepare({"a", "c"});
  After(50);
  Beat("a", 13);
  After(400);
  Beat("a", 14);
  const Goodput& goodput = job().goodput;
  EXPECT_EQ(goodput.starting, absl::Milliseconds(1000));
  EXPECT_EQ(goodput.detecting, absl::Milliseconds(500));
  EXPECT_EQ(goodput.recovering, absl::Milliseconds(100));
  EXPECT_EQ(goodput.training, absl::Milliseconds(400));
  EXPECT_EQ(goodput.Total(), absl::Milliseconds(2000));
  EXPECT_DOUBLE_EQ(goodput.Ratio(), 0.4);
}

TEST_F(IncidentTest, ALossDuringTheRecoveryIsEvidenceOfTheSameIncident) {
  Train(1);
  After(10);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  Halted("a", 12);
  After(40);
  Do(StreamClosed{sessions_["c"], "broken pipe"});
  // Only a is left; c was lost while it halted.
  Prepare({"a"});
  After(5);
  Beat("a", 13);
  ASSERT_THAT(job().incidents, SizeIs(1));
  const v1::Incident& incident = job().incidents.front();
  EXPECT_TRUE(incident.is_over());
  EXPECT_EQ(incident.verdict().worker(), "b");
  ASSERT_THAT(incident.verdict().evidence(), SizeIs(2));
  EXPECT_THAT(incident.verdict().evidence(1).detail(), HasSubstr("worker c"));
  EXPECT_EQ(incident.world_size_after(), 1);
}

TEST_F(IncidentTest, AFurtherHaltBeforeTheFirstStepAddsToTheCost) {
  Train(1);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  Halted("a", 12);
  Halted("c", 12);
  After(10);
  Prepare({"a", "c"});
  After(70);
  Do(StreamClosed{sessions_["c"], "broken pipe"});
  EXPECT_EQ(job().incidents.front().world_size_after(), 0);
  After(3);
  Halted("a", 12);
  After(20);
  Prepare({"a"});
  After(8);
  Beat("a", 13);
  ASSERT_THAT(job().incidents, SizeIs(1));
  const v1::Incident& incident = job().incidents.front();
  EXPECT_EQ(FromProto(incident.cost().detect()), absl::Milliseconds(70));
  EXPECT_EQ(FromProto(incident.cost().halt()), absl::Milliseconds(3));
  EXPECT_EQ(FromProto(incident.cost().connect()), absl::Milliseconds(30));
  EXPECT_EQ(FromProto(incident.cost().first_step()), absl::Milliseconds(8));
  EXPECT_EQ(FromProto(incident.cost().total()), absl::Milliseconds(111));
  EXPECT_THAT(incident.verdict().evidence(), SizeIs(2));
}

TEST_F(IncidentTest, APoliteLeaveIsWantedAndFoundAtOnce) {
  Train(2);
  After(200);
  Do(LeavingReceived{sessions_["b"], "SIGTERM", true, 12});
  ASSERT_THAT(job().incidents, SizeIs(1));
  EXPECT_TRUE(job().incidents.front().is_wanted());
  EXPECT_EQ(FromProto(job().incidents.front().cost().detect()),
            absl::ZeroDuration());
}

TEST_F(IncidentTest, AnOpenIncidentEndsWithTheJob) {
  Train(3);
  Do(FailedReceived{sessions_["b"], job().generation, 12, 2, "no such field"});
  Halted("a", 12);
  Halted("c", 12);
  ASSERT_EQ(job().state(), v1::JOB_STATE_FAILED);
  ASSERT_THAT(job().incidents, SizeIs(1));
  EXPECT_TRUE(job().incidents.front().is_over());
  EXPECT_EQ(job().incidents.front().verdict().exit_code(), 2);
  EXPECT_EQ(Last("job.resumed"), nullptr);
}

TEST_F(IncidentTest, ACancelIsNoIncident) {
  Train(2);
  Do(CancelRequested{1, "j", "enough"});
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  EXPECT_THAT(job().incidents, SizeIs(0));
}

TEST_F(IncidentTest, TheSupervisorTellsHowTheCulpritEnded) {
  Train(2);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  const int64_t pid = job().incidents.front().verdict().pid();
  Join("b", EndOf(pid, 0, 9));
  const v1::Verdict& verdict = job().incidents.front().verdict();
  ASSERT_TRUE(verdict.has_process_end());
  EXPECT_EQ(verdict.process_end().signal(), 9);
  EXPECT_EQ(verdict.evidence().rbegin()[0].kind(),
            v1::EVIDENCE_KIND_SUPERVISOR_REPORT);
  EXPECT_EQ(verdict.evidence().rbegin()[0].detail(),
            "process 102 was ended by signal 9 (Killed)");
  ASSERT_TRUE(job().verdict.has_value());
  EXPECT_EQ(job().verdict->DebugString(), verdict.DebugString());
  const v1::Event* event = Last("worker.process_ended");
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->severity(), v1::EVENT_SEVERITY_WARNING);
  EXPECT_EQ(event->job_id(), "j-1");
  EXPECT_EQ(event->message(),
            "worker b: process 102 was ended by signal 9 (Killed)");
  ASSERT_TRUE(event->has_verdict());

  // It is no news when the next process says it again.
  events_.clear();
  Do(StreamClosed{sessions_["b"], "gone again"});
  Join("b", EndOf(pid, 0, 9));
  EXPECT_EQ(Last("worker.process_ended"), nullptr);
  EXPECT_THAT(job().incidents.front().verdict().evidence(), SizeIs(2));
}

TEST_F(IncidentTest, AnIdleProcessThatEndedIsToldOfToo) {
  Join("z", EndOf(77, 3, 0));
  const v1::Event* event = Last("worker.process_ended");
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->job_id(), "");
  EXPECT_EQ(event->message(), "worker z: process 77 ended with exit code 3");
}

TEST_F(IncidentTest, AProcessWithTheSameNameButAnotherPidIsNotBlamed) {
  Train(2);
  Do(StreamClosed{sessions_["b"], "reset by peer"});
  Join("b", EndOf(4711, 0, 9));
  EXPECT_FALSE(job().incidents.front().verdict().has_process_end());
}

TEST_F(IncidentTest, AHeldJobThatCannotBeIsAWarning) {
  HelloReceived hello;
  hello.session = 1;
  hello.name = "w";
  hello.incarnation = 1;
  hello.held_job_fault = "train.steps must be at least 1, got 0";
  Do(hello);
  const v1::Event* event = Last("worker.held_job_ignored");
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->severity(), v1::EVENT_SEVERITY_WARNING);
  EXPECT_THAT(event->message(), HasSubstr("got 0"));
  EXPECT_NE(core_.state().FindWorker("w"), nullptr);
}

TEST_F(IncidentTest, CostsThatCannotBeAreAWarning) {
  HelloReceived hello;
  hello.session = 1;
  hello.name = "w";
  hello.incarnation = 1;
  hello.costs_fault = "costs.cores must be in [1, 8], got 0";
  Do(hello);
  const v1::Event* event = Last("worker.costs_ignored");
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->severity(), v1::EVENT_SEVERITY_WARNING);
  EXPECT_EQ(event->message(),
            "worker w measured what cannot be: costs.cores must be in [1, 8], "
            "got 0");
  EXPECT_NE(core_.state().FindWorker("w"), nullptr);
}

// The functions themselves, on a job of three ranks that runs at 0 ms.
class IncidentPartsTest : public ::testing::Test {
 protected:
  IncidentPartsTest() {
    job_.id = "j-1";
    job_.stage = stage::Running{};
    job_.best_step = 60;
    job_.last_progress = At(-700);
    for (int rank = 0; rank < 3; ++rank) {
      job_.members.emplace_back().identity.rank = rank;
      job_.members.back().identity.worker = std::string(1, 'a' + rank);
    }
  }

  static MonotonicTime At(int milliseconds) {
    return MonotonicTime() + absl::Seconds(1000) +
           absl::Milliseconds(milliseconds);
  }

  Turn Now(int milliseconds) {
    return {config_,  state_,           outbox_,
            actions_, At(milliseconds), absl::UnixEpoch()};
  }

  static v1::Verdict Because(v1::EvidenceKind kind,
                             const std::string& worker = "",
                             const std::string& observer = "coordinator") {
    v1::Verdict verdict;
    verdict.set_worker(worker);
    verdict.set_rank(worker.empty() ? -1 : worker.front() - 'a');
    verdict.set_summary(worker + " it happened");
    verdict.set_decision(v1::VERDICT_DECISION_REFORM);
    verdict.mutable_evidence()->Add(EvidenceOf(kind, observer, "seen"));
    return verdict;
  }

  Config config_ = Config::FromFailureBudget(absl::Seconds(2));
  State state_;
  Outbox outbox_;
  std::vector<Action> actions_;
  Job job_;
};

TEST_F(IncidentPartsTest, GrowthIsWantedAndNeedsNoDetection) {
  Turn turn = Now(0);
  NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_JOINED));
  ASSERT_NE(OpenIncident(job_), nullptr);
  EXPECT_TRUE(OpenIncident(job_)->is_wanted());
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().detect()),
            absl::ZeroDuration());
  // When something does go wrong, the incident is about that.
  NoteFurtherFault(turn, job_, Because(v1::EVIDENCE_KIND_STREAM_BROKEN, "b"));
  EXPECT_FALSE(OpenIncident(job_)->is_wanted());
  EXPECT_EQ(OpenIncident(job_)->verdict().worker(), "b");
  EXPECT_THAT(OpenIncident(job_)->verdict().evidence(), SizeIs(2));
}

TEST_F(IncidentPartsTest, WhereNobodyIsToBlameAllStoppedWhenProgressDid) {
  Turn turn = Now(0);
  NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_PEER_REPORT));
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().detect()),
            absl::Milliseconds(700));
}

TEST_F(IncidentPartsTest, WhoWasStuckWasLastSeenToGetOnBefore) {
  Turn turn = Now(0);
  Worker gone;
  gone.last_heard = At(-10);
  job_.members[1].last_progress = At(-900);
  NoteMemberGone(
      turn, job_.members[1], gone,
      EvidenceOf(v1::EVIDENCE_KIND_NO_PROGRESS, "coordinator", "stuck"));
  job_.members[1].is_lost = true;
  NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_NO_PROGRESS, "b"));
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().detect()),
            absl::Milliseconds(900));
  EXPECT_EQ(job_.members[1].loss, "stuck");
}

TEST_F(IncidentPartsTest, ALinkCostsWhatItsObserverMayHaveWaited) {
  Turn turn = Now(0);
  state_.workers["a"].last_at_work = At(-300);
  Worker gone;
  gone.last_heard = At(-10);
  NoteMemberGone(turn, job_.members[1], gone,
                 EvidenceOf(v1::EVIDENCE_KIND_PEER_REPORT, "a", "no answer"));
  job_.members[1].is_lost = true;
  // It was heard until it was given up.
  EXPECT_EQ(job_.members[1].last_sign, At(-10));
  NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_PEER_REPORT, "b", "a"));
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().detect()),
            absl::Milliseconds(300));
}

TEST_F(IncidentPartsTest, ALinkCostsNoMoreThanAllWithoutProgress) {
  for (const char* const observer : {"a", "nobody"}) {
    job_.incidents.clear();
    Turn turn = Now(0);
    state_.workers["a"].last_at_work = At(-5000);
    job_.members[1].is_lost = true;
    job_.members[1].last_sign = At(-10);
    NoteHaltBegun(turn, job_,
                  Because(v1::EVIDENCE_KIND_PEER_REPORT, "b", observer));
    EXPECT_EQ(FromProto(OpenIncident(job_)->cost().detect()),
              absl::Milliseconds(700));
  }
}

TEST_F(IncidentPartsTest, ARollbackLosesTheStepsSinceTheCheckpoint) {
  Turn turn = Now(0);
  job_.figures.set_checkpoint_step(40);
  NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_STREAM_BROKEN, "b"));
  job_.members[0].halted = HaltedAnswer{61, 61};
  NoteAllHalted(turn, job_);
  job_.resume_step = 0;
  NoteAssigned(turn, job_);
  EXPECT_EQ(OpenIncident(job_)->lost_steps(), 21);
  EXPECT_EQ(job_.repeat_until, 61);
}

TEST_F(IncidentPartsTest, AWaitAfterTheHaltIsNoPartOfIt) {
  Turn begin = Now(0);
  NoteHaltBegun(begin, job_, Because(v1::EVIDENCE_KIND_STREAM_BROKEN, "b"));
  Turn halted = Now(5);
  NoteAllHalted(halted, job_);
  // Looked at again while the journal fails.
  Turn again = Now(1005);
  NoteAllHalted(again, job_);
  Turn assigned = Now(2005);
  NoteAssigned(assigned, job_);
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().halt()),
            absl::Milliseconds(5));
  EXPECT_EQ(FromProto(OpenIncident(job_)->cost().assign()),
            absl::Milliseconds(2000));
}

TEST_F(IncidentPartsTest, OnlyTheLastIncidentsAreKept) {
  for (size_t i = 0; i < kMaxIncidents + 3; ++i) {
    Turn turn = Now(static_cast<int>(i));
    NoteHaltBegun(turn, job_, Because(v1::EVIDENCE_KIND_STREAM_BROKEN, "b"));
    job_.stage = stage::Running{};
    NoteStep(turn, job_);
  }
  EXPECT_THAT(job_.incidents, SizeIs(kMaxIncidents));
  EXPECT_EQ(job_.incidents.back().number(),
            static_cast<int>(kMaxIncidents) + 3);
}

TEST(IncidentTextTest, ProcessEndsAreNamed) {
  EXPECT_EQ(ToText(EndOf(1, 0, 11)),
            "process 1 was ended by signal 11 (Segmentation fault)");
  EXPECT_EQ(ToText(EndOf(1, 138, 0)), "process 1 ended with exit code 138");
  EXPECT_EQ(ToText(EndOf(1, 0, 99)), "process 1 was ended by signal 99");
}

}  // namespace
}  // namespace ringmaster::coordinator
