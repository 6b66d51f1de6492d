#include "server/ctl/commands/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/testing/ctl_test.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/interrupts.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJobFile[] = "deploy/local/job.yaml";

v1::Job JobIn(v1::JobState state, int exit_code = 0) {
  v1::Job job;
  job.set_id("first-job-1");
  job.set_state(state);
  job.set_exit_code(exit_code);
  job.mutable_figures()->set_step(3);
  job.mutable_figures()->set_total_steps(9);
  return job;
}

using CommandLineTest = CtlTest;

TEST_F(CommandLineTest, RefusesWhatItDoesNotKnow) {
  ExpectError(RunCtl({"status", "--colour"}), ExitCode::kUsage, "--colour");
  ExpectError(RunCtl({"statsu"}), ExitCode::kUsage, "did you mean \"status\"?");
  ExpectError(RunCtl({}), ExitCode::kUsage, "no command");
  ExpectError(RunCtl({"job"}), ExitCode::kUsage, "JOB");
  ExpectError(RunCtl({"status", "-o", "xml"}), ExitCode::kUsage, "xml");
  ExpectError(RunCtl({"status", "--timeout=soon"}), ExitCode::kUsage,
              "timeout");
  ExpectError(RunCtl({"local", "-n", "-1", kJobFile}), ExitCode::kUsage,
              "workers");
}

TEST_F(CommandLineTest, RefusesAddressesThatAreNone) {
  ExpectError(RunCtl({"status", "--coordinator=nowhere"}), ExitCode::kUsage,
              "--coordinator=nowhere");
  ExpectError(RunCtl({"status", "--coordinator=node-7:1"}), ExitCode::kUsage,
              "--insecure");
  ExpectError(RunCtl({"status", "--tls_ca_file=/nonexistent"}),
              ExitCode::kUsage, "--tls_ca_file");
}

TEST_F(CommandLineTest, SaysThatTheCoordinatorCannotBeReached) {
  std::string address;
  {
    FakeCoordinator gone;
    address = gone.address();
  }
  for (const char* command : {"status", "workers", "version"}) {
    const Outcome outcome = RunCtl({command, "--coordinator=" + address});
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kRetryElsewhere));
    EXPECT_THAT(outcome.error,
                HasSubstr("no coordinator listens at " + address));
  }
  ExpectError(RunCtl({"watch", "x", "--coordinator=" + address}),
              ExitCode::kRetryElsewhere, "no coordinator listens");
}

TEST_F(CommandLineTest, PassesOnTheCoordinatorsErrors) {
  coordinator_.FailWith(WithReason(absl::NotFoundError("there is no job x"),
                                   reason::kJobNotFound));
  ExpectError(RunThere({"job", "x"}), ExitCode::kUsage, "there is no job x");
  ExpectError(RunThere({"events", "x"}), ExitCode::kUsage, "there is no job x");
  ExpectError(RunThere({"cancel", "x"}), ExitCode::kUsage, "there is no job x");
  ExpectError(RunThere({"trace", "x"}), ExitCode::kUsage, "there is no job x");
  ExpectError(RunThere({"watch", "x"}), ExitCode::kUsage, "there is no job x");
  ExpectError(RunThere({"explain", "x"}), ExitCode::kUsage,
              "there is no job x");
}

TEST_F(CommandLineTest, ExplainsAJobAsTextAndJson) {
  v1::ExplainJobResponse explanation;
  explanation.set_job_id("first-job-1");
  explanation.set_state(v1::JOB_STATE_GATHERING);
  explanation.set_summary("waits for workers: 1 of at least 2");
  explanation.add_blocking_workers()->set_worker("w1");
  coordinator_.SetExplanation(explanation);
  const Outcome outcome = RunThere({"explain", "first-job"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("first-job-1  GATHERING\nwhy:      waits for workers: "
                       "1 of at least 2\n"),
            HasSubstr("w1")));
  const auto json =
      nlohmann::json::parse(RunThere({"explain", "x", "-o", "json"}).out);
  EXPECT_EQ(json["summary"], "waits for workers: 1 of at least 2");
  EXPECT_EQ(json["blocking_workers"][0]["worker"], "w1");
  ExpectError(RunCtl({"explain"}), ExitCode::kUsage, "JOB");
}

TEST_F(CommandLineTest, ShowsStatusAndWorkersAsTextAndJson) {
  v1::Status status;
  status.mutable_coordinator()->set_version("9.9");
  status.add_workers()->set_name("w-0");
  *status.add_jobs() = JobIn(v1::JOB_STATE_RUNNING);
  coordinator_.SetStatus(status);
  EXPECT_THAT(RunThere({"status"}).out,
              AllOf(HasSubstr("9.9, up"), HasSubstr("first-job-1  RUNNING")));
  EXPECT_THAT(RunThere({"workers"}).out, HasSubstr("w-0"));
  const auto json =
      nlohmann::json::parse(RunThere({"status", "-o", "json"}).out);
  EXPECT_EQ(json["jobs"][0]["figures"]["total_steps"], "9");
  const auto workers =
      nlohmann::json::parse(RunThere({"workers", "-o", "json"}).out);
  EXPECT_EQ(workers["workers"][0]["name"], "w-0");
  EXPECT_TRUE(workers["jobs"].empty());
}

TEST_F(CommandLineTest, ShowsOneJobAndCancelsIt) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_STOPPING));
  EXPECT_THAT(RunThere({"job", "first-job"}).out,
              HasSubstr("first-job-1  STOPPING"));
  EXPECT_EQ(RunThere({"cancel", "first-job", "--reason=enough"}).out,
            "job first-job-1 is STOPPING\n");
  EXPECT_EQ(coordinator_.cancelled().reason(), "enough");
}

TEST_F(CommandLineTest, ListsEventsOldestFirst) {
  std::vector<v1::Event> events(2);
  events[0].set_sequence(1);
  events[0].set_message("first");
  for (v1::Event& event : events) event.set_job_id("x");
  events[1].set_sequence(2);
  events[1].set_message("second");
  coordinator_.SetEvents(events);
  const Outcome text = RunThere({"events"});
  EXPECT_LT(text.out.find("first"), text.out.find("second"));
  EXPECT_EQ(nlohmann::json::parse(
                RunThere({"events", "x", "-o", "json"}).out)["events"]
                .size(),
            2);
}

TEST_F(CommandLineTest, ShowsOnlyTheEventsThatWereAskedFor) {
  std::vector<v1::Event> events(3);
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  for (int i = 0; i < 3; ++i) {
    events[i].set_sequence(i + 1);
    events[i].set_severity(i == 1 ? v1::EVENT_SEVERITY_WARNING
                                  : v1::EVENT_SEVERITY_INFO);
    events[i].mutable_time()->set_seconds(now - 3600 * (3 - i));
    events[i].set_message(absl::StrCat("number ", i));
  }
  coordinator_.SetEvents(events);
  const std::string warnings = RunThere({"events", "--severity=warning"}).out;
  EXPECT_THAT(warnings, HasSubstr("WARNING : number 1\n"));
  EXPECT_THAT(warnings, Not(HasSubstr("number 2")));
  const std::string newest = RunThere({"events", "--since=90m"}).out;
  EXPECT_THAT(newest, HasSubstr("number 2"));
  EXPECT_THAT(newest, Not(HasSubstr("number 1")));
  EXPECT_EQ(RunThere({"events", "--since=2020-01-02T12:03:04+01:00"}).out,
            RunThere({"events"}).out);
  ExpectError(RunThere({"events", "--since=yesterday"}), ExitCode::kUsage,
              "--since=yesterday: give a duration");
}

TEST_F(CommandLineTest, FollowsEventsUntilTheJobHasEnded) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_RUNNING));
  std::vector<v1::Event> events(1);
  events[0].set_sequence(1);
  events[0].set_job_id("first-job-1");
  events[0].set_message("begins");
  coordinator_.SetEvents(events);
  std::thread end([&] {
    coordinator_.AwaitJobQuery();
    events.push_back(events[0]);
    events[1].set_sequence(2);
    events[1].set_message("ends");
    coordinator_.SetEvents(events);
    coordinator_.SetJob(JobIn(v1::JOB_STATE_SUCCEEDED));
  });
  const Outcome outcome =
      RunThere({"events", "first-job-1", "--follow", "-o", "json"});
  end.join();
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  std::istringstream lines(outcome.out);
  std::string line;
  for (const char* message : {"begins", "ends"}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(nlohmann::json::parse(line)["message"], message);
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(CommandLineTest, FollowsNoOtherCoordinatorsEvents) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_RUNNING));
  v1::Status status;
  status.mutable_coordinator()->set_incarnation(1);
  coordinator_.SetStatus(status);
  std::vector<v1::Event> events(1);
  events[0].set_sequence(1);
  events[0].set_job_id("first-job-1");
  coordinator_.SetEvents(events);
  std::thread restart([&] {
    // It has the first one's events by then.
    coordinator_.AwaitExplanationQuery();
    status.mutable_coordinator()->set_incarnation(2);
    coordinator_.SetStatus(status);
  });
  const Outcome outcome = RunThere({"events", "first-job-1", "--follow"});
  restart.join();
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kRetryElsewhere));
  EXPECT_THAT(outcome.error, HasSubstr("the coordinator was started again"));
}

TEST_F(CommandLineTest, ListsJobsByState) {
  v1::Status status;
  *status.add_jobs() = JobIn(v1::JOB_STATE_RUNNING);
  v1::Job& queued = *status.add_jobs();
  queued.set_id("second-2");
  queued.set_state(v1::JOB_STATE_QUEUED);
  queued.set_request_id("r7");
  coordinator_.SetStatus(status);
  const std::string all = RunThere({"jobs"}).out;
  EXPECT_THAT(all, HasSubstr("first-job-1  RUNNING"));
  EXPECT_THAT(all, HasSubstr("second-2     QUEUED"));
  EXPECT_THAT(all, Not(HasSubstr("r7")));
  const std::string wide =
      RunThere({"jobs", "--state=queued", "-o", "wide"}).out;
  EXPECT_THAT(wide, Not(HasSubstr("first-job-1")));
  EXPECT_THAT(wide, HasSubstr("r7"));
  const auto json = nlohmann::json::parse(RunThere({"jobs", "-o", "json"}).out);
  EXPECT_EQ(json["jobs"].size(), 2);
  EXPECT_EQ(RunThere({"jobs", "--state=failed"}).error, "no jobs\n");
  ExpectError(RunThere({"jobs", "--state=broken"}), ExitCode::kUsage,
              "--state=broken: must be one of queued, gathering");
}

TEST_F(CommandLineTest, JsonHasFieldsThatHoldTheirDefault) {
  v1::Job job = JobIn(v1::JOB_STATE_RUNNING);
  job.add_members()->set_worker("w-0");
  coordinator_.SetJob(job);
  const auto json =
      nlohmann::json::parse(RunThere({"job", "x", "-o", "json"}).out);
  EXPECT_EQ(json["members"][0]["rank"], 0);
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["incidents"], nlohmann::json::array());
  EXPECT_FALSE(json.contains("verdict"));
}

TEST_F(CommandLineTest, TellsAJobWithoutEventsFromNone) {
  EXPECT_EQ(RunThere({"events"}).code, 0);
  const Outcome none = RunThere({"events", "nope"});
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.error, HasSubstr("no such job"));
  coordinator_.SetJob(JobIn(v1::JOB_STATE_QUEUED));
  EXPECT_EQ(RunThere({"events", "first-job"}).code, 0);
}

TEST_F(CommandLineTest, ShowsBothVersions) {
  v1::Status status;
  status.mutable_coordinator()->set_version("9.9");
  coordinator_.SetStatus(status);
  EXPECT_THAT(RunThere({"version"}).out, AllOf(StartsWith("client: ringmaster"),
                                               HasSubstr("server: 9.9\n")));
  EXPECT_EQ(
      nlohmann::json::parse(RunThere({"version", "-o", "json"}).out)["server"],
      "9.9");
}

// A benchmark of two sizes that ended.
v1::Job BenchJobIn(v1::JobState state, int exit_code = 0) {
  v1::Job job;
  job.set_id("bench-allreduce-1");
  job.set_state(state);
  job.set_exit_code(exit_code);
  job.mutable_spec()->mutable_workers()->set_min(3);
  job.mutable_spec()->mutable_bench()->add_sizes(4096);
  job.mutable_bench()->set_limit_bytes_per_second(1e9);
  v1::BenchRow& row = *job.mutable_bench()->add_rows();
  row.set_bytes(4096);
  row.set_count(1024);
  row.set_p50_seconds(1e-5);
  row.set_p99_seconds(2e-5);
  return job;
}

TEST_F(CommandLineTest, ABenchWithACoordinatorIsAJobOfItsWorkers) {
  coordinator_.SetJob(BenchJobIn(v1::JOB_STATE_SUCCEEDED));
  const Outcome table =
      RunThere({"bench", "allreduce", "-n", "3", "--sizes=4K:16K",
                "--transport=unix", "--op=max"});
  EXPECT_EQ(table.code, 0) << table.error;
  EXPECT_THAT(table.out, AllOf(HasSubstr("all-reduce of 3 workers"),
                               HasSubstr("\n        4096         1024")));
  EXPECT_EQ(table.error, "job bench-allreduce-1: all-reduce of 3 workers\n");
  const v1::JobSpec spec = coordinator_.submitted().spec();
  EXPECT_EQ(spec.workers().min(), 3);
  EXPECT_EQ(spec.workers().max(), 3);
  EXPECT_EQ(spec.bench().sizes_size(), 2);
  EXPECT_EQ(spec.bench().reduction(), v1::BENCH_REDUCTION_MAX);
  EXPECT_EQ(spec.bench().collective().transport(),
            v1::COLLECTIVE_TRANSPORT_UNIX);
  const Outcome json =
      RunThere({"bench", "allreduce", "-n", "3", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["sizes"][0]["bytes"], 4096);
}

TEST_F(CommandLineTest, ABenchThatFailsEndsWithItsJobsCode) {
  v1::Job job = BenchJobIn(v1::JOB_STATE_FAILED, 138);
  job.set_message("worker b is gone");
  coordinator_.SetJob(job);
  const Outcome outcome = RunThere({"bench", "allreduce", "-n", "2"});
  EXPECT_EQ(outcome.code, 138);
  EXPECT_THAT(outcome.error,
              HasSubstr("\nerror: job bench-allreduce-1 failed: worker b is "
                        "gone\n"));
}

TEST_F(CommandLineTest, ABenchOfThePoolTakesItsIdleWorkers) {
  v1::Status status;
  for (const auto state : {v1::WORKER_STATE_IDLE, v1::WORKER_STATE_ASSIGNED,
                           v1::WORKER_STATE_IDLE}) {
    status.add_workers()->set_state(state);
  }
  coordinator_.SetStatus(status);
  coordinator_.SetJob(BenchJobIn(v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(RunThere({"bench", "allreduce"}).code, 0);
  EXPECT_EQ(coordinator_.submitted().spec().workers().min(), 2);
  status.mutable_workers(0)->set_state(v1::WORKER_STATE_DRAINING);
  coordinator_.SetStatus(status);
  ExpectError(RunThere({"bench", "allreduce"}), ExitCode::kUsage,
              "--ranks: the pool has 1 idle workers");
}

TEST_F(CommandLineTest, WritesATraceToAFileOrStdout) {
  v1::GetTraceResponse trace;
  v1::TraceSpan& span = *trace.add_ranks()->add_spans();
  span.set_name("all_reduce");
  span.set_track("communication");
  trace.add_missing_workers("w-9");
  coordinator_.SetTrace(trace);
  const Outcome outcome = RunThere({"trace", "x"});
  EXPECT_THAT(outcome.out, HasSubstr("all_reduce"));
  EXPECT_EQ(outcome.error, "no trace from w-9\n");
  const std::string path = absl::StrCat(::testing::TempDir(), "/trace.json");
  EXPECT_EQ(RunThere({"trace", "x", "-f", path}).code, 0);
  std::ifstream file(path);
  EXPECT_FALSE(nlohmann::json::parse(file)["traceEvents"].empty());
  EXPECT_THAT(RunThere({"trace", "x", "-f", "/nonexistent/trace"}).error,
              HasSubstr("cannot write the trace to"));
  coordinator_.SetTrace({});
  ExpectError(RunThere({"trace", "x"}), ExitCode::kUsage,
              "no rank of job x has recorded anything");
}

TEST_F(CommandLineTest, ShowsTheFlightRecordOfAnIncident) {
  v1::FlightRecord record;
  record.set_job_id("x-1");
  record.set_incident(2);
  record.add_hold_ups()->set_summary("rank 1 was late");
  record.add_missing()->set_reason("was lost");
  coordinator_.SetFlight(record);
  const Outcome outcome = RunThere({"flight", "x", "--incident=2"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("held up:  rank 1 was late\n"));
  EXPECT_EQ(outcome.error, "no record of rank 0 (worker ): it was lost\n");
  const Outcome json = RunThere({"flight", "x", "--incident=2", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["hold_ups"][0]["summary"],
            "rank 1 was late");
  ExpectError(RunThere({"flight", "x"}), ExitCode::kUsage,
              "no such flight record");
}

TEST_F(CommandLineTest, SaysWhichStepsATraceLacks) {
  v1::GetTraceResponse trace;
  v1::RankTrace& rank = *trace.add_ranks();
  rank.set_first_held_step(7000);
  rank.set_last_held_step(8532);
  coordinator_.SetTrace(trace);
  ExpectError(RunThere({"trace", "x", "--first_step=1", "--last_step=5"}),
              ExitCode::kUsage,
              "job x no longer has a trace of steps 1 to 5: its ranks hold "
              "steps 7000 to 8532");
  ExpectError(RunThere({"trace", "x", "--first_step=9000"}), ExitCode::kUsage,
              "job x has no trace of step 9000 and later yet");
  rank.add_spans()->set_step(8532);
  trace.set_first_fitting_step(8000);
  coordinator_.SetTrace(trace);
  const Outcome cut = RunThere({"trace", "x"});
  EXPECT_EQ(cut.code, 0);
  EXPECT_EQ(cut.error,
            "note: steps before 8000 are left out: they do not fit one answer; "
            "ask for them with --last_step=7999\n");
  EXPECT_THAT(RunThere({"trace", "x", "--first_step=6999"}).error,
              HasSubstr("note: steps before 7000 are gone"));
}

TEST_F(CommandLineTest, SubmitsAJobWithChanges) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_QUEUED));
  const Outcome outcome = RunThere(
      {"submit", kJobFile, "--set", "train.steps=60", "--request_id=r1"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "job first-job-1 is QUEUED\n");
  EXPECT_EQ(coordinator_.submitted().spec().train().steps(), 60);
  EXPECT_EQ(coordinator_.submitted().request_id(), "r1");
  EXPECT_FALSE(coordinator_.submitted().validate_only());
  EXPECT_EQ(nlohmann::json::parse(
                RunThere({"submit", kJobFile, "-o", "json"}).out)["id"],
            "first-job-1");
}

TEST_F(CommandLineTest, SaysWhetherAJobWasQueuedIfNobodyAnswers) {
  std::string address;
  {
    FakeCoordinator gone;
    address = gone.address();
  }
  ExpectError(RunCtl({"submit", kJobFile, "--coordinator=" + address}),
              ExitCode::kRetryElsewhere,
              "error: the job was not queued: no coordinator listens");
  coordinator_.FailWith(absl::UnavailableError("Socket closed"));
  const Outcome outcome = RunThere({"submit", kJobFile});
  const std::string id = coordinator_.submitted().request_id();
  EXPECT_THAT(id, StartsWith("ringctl-"));
  ExpectError(outcome, ExitCode::kRetryElsewhere,
              "error: it is not known whether the job was queued: ");
  EXPECT_THAT(outcome.error, HasSubstr(absl::StrCat(
                                 "submitting it again with --request_id=", id,
                                 " queues it only if it was not")));
  RunThere({"submit", kJobFile});
  EXPECT_NE(coordinator_.submitted().request_id(), id);
}

TEST_F(CommandLineTest, RefusesBadJobFilesWithFileAndLine) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/bad.yaml");
  std::ofstream(path) << "name: x\ntrian: 3\n";
  ExpectError(RunThere({"submit", path}), ExitCode::kUsage, "bad.yaml:2");
  ExpectError(RunThere({"submit", "/nonexistent.yaml"}), ExitCode::kUsage,
              "/nonexistent.yaml");
  ExpectError(RunThere({"submit", kJobFile, "--set", "train.stpes=1"}),
              ExitCode::kUsage, "stpes");
  ExpectError(RunCtl({"local", path}), ExitCode::kUsage, "bad.yaml:2");
  ExpectError(RunCtl({"local", kJobFile, "--set=train.steps=0"}),
              ExitCode::kUsage, "train.steps must be at least 1");
  coordinator_.FailWith(WithReason(absl::InvalidArgumentError("train.steps: 0"),
                                   reason::kInvalidJobSpec));
  ExpectError(RunThere({"submit", kJobFile}), ExitCode::kUsage,
              "job.yaml: train.steps: 0");
}

TEST_F(CommandLineTest, ADryRunPrintsTheJobWithDefaults) {
  v1::Job job;
  job.mutable_spec()->set_name("from-the-coordinator");
  coordinator_.SetJob(job);
  const Outcome there = RunThere({"submit", "--dry-run", kJobFile});
  EXPECT_EQ(there.out, "name: \"from-the-coordinator\"\n");
  EXPECT_TRUE(coordinator_.submitted().validate_only());
  EXPECT_EQ(nlohmann::json::parse(
                RunThere({"submit", "--dry-run", kJobFile, "-o", "json"})
                    .out)["name"],
            "from-the-coordinator");
}

TEST_F(CommandLineTest, ADryRunWithoutACoordinatorSaysSo) {
  const Outcome outcome =
      RunCtl({"submit", "--dry-run", kJobFile, "--coordinator=127.0.0.1:1"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.error,
              AllOf(StartsWith("note: checked by ringctl itself only"),
                    HasSubstr("127.0.0.1:1")));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("hash_every: 50\n"), HasSubstr("beta1: 0.9\n")));
  ExpectError(RunCtl({"submit", "--dry-run", kJobFile, "--set=train.steps=0",
                      "--coordinator=127.0.0.1:1"}),
              ExitCode::kUsage, "train.steps");
}

TEST_F(CommandLineTest, WatchEndsWithTheJobsExitCode) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_FAILED, 138));
  EXPECT_EQ(RunThere({"watch", "first-job"}).code, 138);
  const Outcome submitted = RunThere({"submit", "--watch", kJobFile});
  EXPECT_EQ(submitted.code, 138);
  EXPECT_THAT(submitted.out, HasSubstr("job first-job-1 failed: 3/9 steps"));
}

// `local` with shell scripts in place of the other programs; the coordinator's script names the fake one.
class LocalTest : public CommandLineTest {
 protected:
  LocalTest()
      : dir_(fs::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    Script("coordinator",
           absl::StrCat(
               "for a in \"$@\"; do case $a in --port_file=*) echo ",
               coordinator_.port(),
               " >\"${a#*=}\";; esac; done\nwhile :; do sleep 0.01; done\n"));
    Script("worker", "echo started $*\nwhile :; do sleep 0.01; done\n");
  }

  void Script(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << "#!/bin/sh\n" << text;
    fs::permissions(dir_ / name, fs::perms::owner_all);
  }

  Outcome RunLocally(bool is_terminal = false) {
    std::vector<std::string> args = {
        "local",
        "-n",
        "2",
        kJobFile,
        "--timeout=20s",
        absl::StrCat("--bin_dir=", dir_.string()),
        absl::StrCat("--run_dir=", (dir_ / "run").string())};
    return RunCtl(args, is_terminal);
  }

  const fs::path dir_;
};

TEST_F(LocalTest, RunsAJobToItsEnd) {
  v1::Job job = JobIn(v1::JOB_STATE_SUCCEEDED);
  job.set_parameters_hash("ab12");
  coordinator_.SetJob(job);
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("job first-job-1 succeeded: 3/9 steps, "
                                     "parameters ab12\n"));
  EXPECT_EQ(outcome.error,
            absl::StrCat("logs: ", (dir_ / "run").string(),
                         "\ncoordinator: ", coordinator_.address(), "\n"));
  EXPECT_EQ(coordinator_.submitted().spec().workers().max(), 2);
  EXPECT_TRUE(fs::exists(dir_ / "run/worker-1.log"));
}

TEST_F(LocalTest, ATerminalShowsWhatMembersDoHoweverTheJobIsWatched) {
  v1::Job job = JobIn(v1::JOB_STATE_SUCCEEDED);
  job.add_members()->set_phase(v1::PHASE_STEP);
  job.mutable_members(0)->set_waiting_for_rank(1);
  coordinator_.SetJob(job);
  for (const Outcome& outcome :
       {RunThere({"watch", "first-job"}, /*is_terminal=*/true),
        RunThere({"submit", "--watch", kJobFile}, /*is_terminal=*/true),
        RunLocally(/*is_terminal=*/true)}) {
    EXPECT_EQ(outcome.code, 0) << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("STEP, waits for rank 1"));
  }
}

TEST_F(LocalTest, ShowsTheCulpritsLogOfAFailedJob) {
  v1::Job job = JobIn(v1::JOB_STATE_FAILED, 138);
  job.mutable_verdict()->set_worker("worker-1");
  coordinator_.SetJob(job);
  Script("worker",
         "echo 'the disk is on fire'\nwhile :; do sleep 0.01; done\n");
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 138);
  EXPECT_THAT(outcome.out, HasSubstr("culprit:  worker worker-1"));
  EXPECT_THAT(outcome.error, HasSubstr("worker-1.log:\n"));
}

// The worker has told it, and the verdict repeats it.
TEST_F(LocalTest, ALogThatHasNothingNewIsNotShown) {
  v1::Job job = JobIn(v1::JOB_STATE_FAILED, 5);
  job.mutable_verdict()->set_worker("worker-1");
  job.mutable_verdict()->add_evidence()->set_kind(
      v1::EVIDENCE_KIND_SELF_REPORT);
  coordinator_.SetJob(job);
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.error, Not(HasSubstr("worker-1.log")));
}

TEST_F(LocalTest, EndsWhenAWorkerCannotStart) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_GATHERING));
  Script("worker", "echo 'no memory'; exit 138\n");
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 138);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("ended with exit code 138"),
                                   HasSubstr("no memory")));
}

TEST_F(LocalTest, EndsWhenTheCoordinatorDoes) {
  Script("coordinator", "echo 'error: no disk' >&2; exit 2\n");
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.error, HasSubstr("error: no disk"));
}

TEST_F(LocalTest, SaysThatAProgramIsMissing) {
  fs::remove(dir_ / "worker");
  ExpectError(RunLocally(), ExitCode::kUsage, "cannot find the program worker");
}

TEST(SampleTest, BecomesTheWorkerWithItsExitCode) {
  const fs::path dir = fs::path(::testing::TempDir()) / "sample";
  fs::create_directories(dir);
  // Prints to stderr, which death tests look at.
  std::ofstream(dir / "worker") << "#!/bin/sh\necho \"$*\" >&2\nexit 7\n";
  fs::permissions(dir / "worker", fs::perms::owner_all);
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      (void)RunCtl({"sample", "--checkpoint=/c", "--prompt=The sea",
                    "--bytes=9", "--temperature=0.5", "--top_k=3", "--seed=4",
                    "--vocabulary=v", "--merges=m", "--threads=2",
                    "--bin_dir=" + dir.string()}),
      ::testing::ExitedWithCode(7),
      "sample --checkpoint=/c --prompt=The sea --bytes=9 --temperature=0.5 "
      "--top_k=3 --seed=4 --threads=2 --vocabulary=v --merges=m");
}

TEST(SampleTest, SaysWhatIsMissing) {
  ExpectError(RunCtl({"sample", "--prompt=x"}), ExitCode::kUsage, "checkpoint");
  const Outcome outcome = RunCtl(
      {"sample", "--checkpoint=/c", "--prompt=x", "--bin_dir=/nonexistent"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.error, HasSubstr("cannot find the program worker"));
}

TEST_F(LocalTest, CancelsTheJobWhenInterrupted) {
  coordinator_.SetJob(JobIn(v1::JOB_STATE_RUNNING));
  std::thread user([this] {
    coordinator_.AwaitWatcher();
    ::kill(::getpid(), SIGINT);
    coordinator_.AwaitCancel();
    coordinator_.SetJob(JobIn(v1::JOB_STATE_CANCELLED, 143));
  });
  const Outcome outcome = RunLocally();
  user.join();
  EXPECT_EQ(outcome.code, 143);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("cancelling the job"),
                                 HasSubstr("was cancelled")));
  EXPECT_EQ(coordinator_.cancelled().reason(), "interrupted");
}

TEST_F(LocalTest, EndsWhenInterruptedBeforeTheJobIsQueued) {
  Script("coordinator", absl::StrCat("kill -INT ", ::getpid(),
                                     "\nwhile :; do sleep 0.01; done\n"));
  const Outcome outcome = RunLocally();
  EXPECT_EQ(outcome.code, 143);
  EXPECT_THAT(outcome.error, HasSubstr("error: stopped by a signal\n"));
}

}  // namespace
}  // namespace ringmaster::ctl
