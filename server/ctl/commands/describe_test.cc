#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DescribeCommandTest : public CtlTest {
 protected:
  // The worker w0 trains the job x-1, and w9 is gone.
  DescribeCommandTest() {
    v1::Status status;
    v1::Worker& worker = *status.add_workers();
    worker.set_name("w0");
    worker.set_job_id("x-1");
    v1::Job& job = *status.add_jobs();
    job.set_id("x-1");
    job.set_state(v1::JOB_STATE_RUNNING);
    job.add_members()->set_worker("w0");
    coordinator_.SetStatus(status);
    job_ = job;
    std::vector<v1::Event> events(2);
    events[0].set_sequence(1);
    events[0].set_worker("w9");
    events[0].set_message("worker w9 left");
    events[1].set_sequence(2);
    events[1].set_job_id("x-1");
    events[1].set_message("it began");
    coordinator_.SetEvents(events);
    v1::ExplainJobResponse explanation;
    explanation.set_summary("it trains");
    coordinator_.SetExplanation(explanation);
  }

  v1::Job job_;
};

TEST_F(DescribeCommandTest, AWorker) {
  const Outcome outcome = RunThere({"describe", "w0"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("w0  worker"),
                                 HasSubstr("job:        x-1 RUNNING")));
  const auto json =
      nlohmann::json::parse(RunThere({"describe", "w0", "-o", "json"}).out);
  EXPECT_EQ(json["worker"]["name"], "w0");
  EXPECT_EQ(json["member"]["worker"], "w0");
  EXPECT_TRUE(json["incidents"].empty());
}

TEST_F(DescribeCommandTest, AJob) {
  coordinator_.SetJob(job_);
  const Outcome outcome = RunThere({"describe", "job/x"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("it trains"), HasSubstr("it began")));
  const auto json =
      nlohmann::json::parse(RunThere({"describe", "job/x", "-o", "json"}).out);
  EXPECT_EQ(json["job"]["id"], "x-1");
  EXPECT_EQ(json["explanation"]["summary"], "it trains");
  EXPECT_EQ(json["workers"][0]["name"], "w0");
  EXPECT_EQ(json["events"][0]["message"], "it began");
}

TEST_F(DescribeCommandTest, WhatIsLeftOfAWorkerThatIsGone) {
  EXPECT_THAT(RunThere({"describe", "w9"}).out,
              AllOf(HasSubstr("w9  gone"), HasSubstr("worker w9 left")));
  const auto json =
      nlohmann::json::parse(RunThere({"describe", "w9", "-o", "json"}).out);
  EXPECT_FALSE(json.contains("worker"));
}

TEST_F(DescribeCommandTest, NobodyOfTheName) {
  ExpectError(RunThere({"describe", "nobody"}), ExitCode::kUsage,
              "there is no worker and no job nobody");
}

}  // namespace
}  // namespace ringmaster::ctl
