#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::ProcessLog& AddLog(const std::string& name, uint64_t incarnation,
                       v1::GetLogsResponse& logs) {
  v1::ProcessLog& log = *logs.add_logs();
  log.set_name(name);
  log.set_incarnation(incarnation);
  log.mutable_page()->set_first_held_sequence(1);
  return log;
}

void AddLine(int second, const std::string& event, v1::ProcessLog& log) {
  v1::LogPage& page = *log.mutable_page();
  v1::LogLine& line = *page.add_lines();
  page.set_last_sequence(page.last_sequence() + 1);
  line.set_sequence(page.last_sequence());
  line.mutable_time()->set_seconds(second);
  line.set_severity(v1::LOG_SEVERITY_INFO);
  line.set_event(event);
}

class LogsTest : public CtlTest {
 protected:
  // w0 is a worker, x a job.
  LogsTest() {
    v1::Status status;
    status.add_workers()->set_name("w0");
    coordinator_.SetStatus(status);
  }

  void SetJob(v1::JobState state) {
    v1::Job job;
    job.set_id("x-1");
    job.set_state(state);
    coordinator_.SetJob(job);
  }
};

TEST_F(LogsTest, PrintsAWorkersLinesAsItWroteThem) {
  v1::GetLogsResponse logs;
  AddLine(60, "session.joined", AddLog("w0", 1, logs));
  logs.mutable_logs(0)->mutable_page()->mutable_lines(0)->set_fields("rank=2");
  coordinator_.SetLogs(logs);
  const Outcome outcome = RunThere({"logs", "w0", "--tail=5"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out,
            "1970-01-01T00:01:00.000+00:00 I session.joined rank=2\n");
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_EQ(coordinator_.logs_request().worker(), "w0");
  EXPECT_EQ(coordinator_.logs_request().filter().tail(), 5);
  EXPECT_EQ(coordinator_.logs_request().filter().min_severity(),
            v1::LOG_SEVERITY_INFO);
}

TEST_F(LogsTest, MergesTheLinesOfAJobByTime) {
  SetJob(v1::JOB_STATE_RUNNING);
  v1::GetLogsResponse logs;
  v1::ProcessLog& first = AddLog("w0", 1, logs);
  AddLine(1, "a", first);
  AddLine(3, "c", first);
  AddLine(2, "b", AddLog("w10", 2, logs));
  coordinator_.SetLogs(logs);
  EXPECT_EQ(RunThere({"logs", "x", "--severity=warning"}).out,
            "w0  1970-01-01T00:00:01.000+00:00 I a\n"
            "w10 1970-01-01T00:00:02.000+00:00 I b\n"
            "w0  1970-01-01T00:00:03.000+00:00 I c\n");
  EXPECT_EQ(coordinator_.logs_request().job(), "x-1");
  EXPECT_EQ(coordinator_.logs_request().filter().min_severity(),
            v1::LOG_SEVERITY_WARNING);
}

TEST_F(LogsTest, SaysWhoseLinesAreMissingAndWhereTheyLie) {
  SetJob(v1::JOB_STATE_RUNNING);
  v1::GetLogsResponse logs;
  AddLine(1, "a", AddLog("w0", 1, logs));
  v1::MissingLog& late = *logs.add_missing();
  late.set_worker("w1");
  late.set_reason("did not answer within 2s");
  v1::MissingLog& gone = *logs.add_missing();
  gone.set_worker("w2");
  gone.set_reason("is gone: worker w2 was lost");
  gone.set_host("alpha");
  gone.set_log_file("/var/log/w2");
  coordinator_.SetLogs(logs);
  const Outcome outcome = RunThere({"logs", "x"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.error,
            "note: w1 did not answer within 2s\n"
            "note: w2 is gone: worker w2 was lost; its log file: "
            "alpha:/var/log/w2\n");
  logs.clear_logs();
  coordinator_.SetLogs(logs);
  EXPECT_THAT(
      RunThere({"logs", "x"}).error,
      HasSubstr("error: job x-1: none of its members has sent its log"));
}

TEST_F(LogsTest, SaysThatMembersFromBeforeAnInterruptionAreNotAsked) {
  v1::GetLogsResponse logs;
  AddLine(1, "a", AddLog("w0", 1, logs));
  coordinator_.SetLogs(logs);
  v1::Job job;
  job.set_id("x-1");
  job.set_state(v1::JOB_STATE_RUNNING);
  coordinator_.SetJob(job);
  EXPECT_THAT(RunThere({"logs", "x"}).error, IsEmpty());
  job.add_incidents();
  coordinator_.SetJob(job);
  EXPECT_THAT(
      RunThere({"logs", "x"}).error,
      HasSubstr("note: only the job's members since its last interruption"));
  EXPECT_THAT(RunThere({"logs", "worker/w0"}).error, IsEmpty());
}

TEST_F(LogsTest, AWorkerThatCannotAnswerIsAnErrorOfOneLine) {
  v1::GetLogsResponse logs;
  v1::MissingLog& gone = *logs.add_missing();
  gone.set_worker("w7");
  gone.set_reason("is gone: worker w7 left");
  gone.set_host("beta");
  coordinator_.SetLogs(logs);
  ExpectError(RunThere({"logs", "w7"}), ExitCode::kUsage,
              "worker w7 is gone: worker w7 left; it had no --log_file on host "
              "beta");
}

TEST_F(LogsTest, RefusesWhatItDoesNotUnderstand) {
  ExpectError(RunThere({"logs", "nobody"}), ExitCode::kUsage,
              "there is no worker and no job nobody");
  ExpectError(RunThere({"logs", "w0", "--since=yesterday"}), ExitCode::kUsage,
              "--since=yesterday");
  ExpectError(RunThere({"logs", "job/"}), ExitCode::kUsage, "give the name");
  SetJob(v1::JOB_STATE_QUEUED);
  ExpectError(RunThere({"logs", "w0"}), ExitCode::kUsage,
              "a worker and a job are named w0: say worker/w0 or job/w0");
  v1::GetLogsResponse logs;
  AddLine(1, "a", AddLog("w0", 1, logs));
  coordinator_.SetLogs(logs);
  EXPECT_EQ(RunThere({"logs", "worker/w0"}).code, 0);
  EXPECT_EQ(RunThere({"logs", "job/w0"}).code, 0);
}

TEST_F(LogsTest, CoordinatorIsTheCoordinatorItself) {
  v1::GetLogsResponse logs;
  AddLine(1, "a", AddLog("coordinator", 1, logs));
  coordinator_.SetLogs(logs);
  EXPECT_EQ(RunThere({"logs", "coordinator"}).code, 0);
  EXPECT_TRUE(coordinator_.logs_request().coordinator());
}

TEST_F(LogsTest, ACoordinatorOfAnEarlierReleaseIsNamedAsSuch) {
  coordinator_.FailWith(absl::UnimplementedError(""));
  ExpectError(RunThere({"logs", "coordinator"}), ExitCode::kRetryElsewhere,
              "is not a Ringmaster coordinator of this version: check");
}

TEST_F(LogsTest, PrintsJson) {
  v1::GetLogsResponse logs;
  AddLine(1, "a", AddLog("w0", 1, logs));
  coordinator_.SetLogs(logs);
  const auto json =
      nlohmann::json::parse(RunThere({"logs", "w0", "-o", "json"}).out);
  EXPECT_EQ(json["logs"][0]["page"]["lines"][0]["event"], "a");
  EXPECT_TRUE(json["missing"].empty());
}

TEST_F(LogsTest, FollowsAJobToItsEnd) {
  SetJob(v1::JOB_STATE_RUNNING);
  v1::GetLogsResponse logs;
  v1::ProcessLog& log = AddLog("w0", 1, logs);
  AddLine(1, "a", log);
  AddLine(2, "b", log);
  coordinator_.SetLogs(logs);
  std::thread job([&] {
    coordinator_.AwaitExplanationQuery();
    AddLine(3, "c", log);
    log.mutable_page()->set_left_out_count(1);
    coordinator_.SetLogs(logs);
    SetJob(v1::JOB_STATE_SUCCEEDED);
  });
  const Outcome outcome = RunThere({"logs", "x", "-f", "--tail=1"});
  job.join();
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out,
            "w0 1970-01-01T00:00:02.000+00:00 I b\n"
            "w0 1970-01-01T00:00:03.000+00:00 I c\n");
  EXPECT_EQ(outcome.error,
            "note: 1 line of w0 left out: they do not fit an answer\n");
}

TEST_F(LogsTest, TextOfOthersCannotSteerTheTerminal) {
  v1::GetLogsResponse logs;
  AddLine(1, "a\x1b[2J", AddLog("w0", 1, logs));
  coordinator_.SetLogs(logs);
  EXPECT_EQ(RunThere({"logs", "w0"}).out.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::ctl
