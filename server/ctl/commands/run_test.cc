#include "server/ctl/commands/run.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/client.h"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

// ringctl, as far as `run` goes.
class RunFlagsTest : public ::testing::Test {
 protected:
  RunFlagsTest() {
    flags_.Add({.name = "token_file", .unit = "FILE"}, &token_file_);
    flags_.Add({.name = "insecure"}, &insecure_);
    AddRunCommand(flags_, options_);
  }
  absl::Status Parse(const Arguments& arguments) {
    return flags_.Parse(arguments).status();
  }

  std::string token_file_;
  bool insecure_ = false;
  RunOptions options_;
  FlagSet flags_{"ringctl", "Talks to a coordinator."};
};

TEST_F(RunFlagsTest, StandBeforeTheCommandHoweverTheyAreWritten) {
  ASSERT_EQ(Parse({"--insecure", "--token-file", "F", "run", "-n", "4",
                   "--max-restarts", "2", "--env=A=b", "--env", "C=d", "cmd",
                   "-n", "5", "--help"}),
            absl::OkStatus());
  EXPECT_THAT(options_.command, ElementsAre("cmd", "-n", "5", "--help"));
  EXPECT_EQ(options_.ranks, 4);
  EXPECT_EQ(options_.max_restarts, 2);
  EXPECT_THAT(options_.environment, ElementsAre("A=b", "C=d"));
  EXPECT_EQ(token_file_, "F");
  EXPECT_TRUE(insecure_);
}

TEST_F(RunFlagsTest, OfAllCommandsMayStandBehindRun) {
  ASSERT_EQ(Parse({"run", "--token-file", "F", "-n2", "cmd", "-n", "5"}),
            absl::OkStatus());
  EXPECT_THAT(options_.command, ElementsAre("cmd", "-n", "5"));
  EXPECT_EQ(options_.ranks, 2);
  EXPECT_EQ(token_file_, "F");
}

// A job of two workers that has ended, the last lines of one of which are late.
class LastLinesTest : public ::testing::Test {
 protected:
  LastLinesTest() {
    v1::Job job;
    job.set_id("run-1");
    job.set_generation(1);
    job.set_state(v1::JOB_STATE_SUCCEEDED);
    coordinator_.SetJob(job);
    AddLine("w0", 1, "early");
    v1::MissingLog& missing = *logs_.add_missing();
    missing.set_worker("w1");
    missing.set_reason("did not answer within 2s");
    coordinator_.SetLogs(logs_);
  }

  void AddLine(const std::string& worker, uint64_t incarnation,
               const std::string& text) {
    v1::ProcessLog& log = *logs_.add_logs();
    log.set_name(worker);
    log.set_incarnation(incarnation);
    log.mutable_page()->set_first_held_sequence(1);
    log.mutable_page()->set_last_sequence(1);
    v1::LogLine& line = *log.mutable_page()->add_lines();
    line.set_sequence(1);
    line.set_event("command.stdout");
    line.set_fields("job=run-1 rank=0 text=" + text);
  }

  absl::StatusOr<int> Run(absl::Duration limit) {
    Client client({.address = coordinator_.address(),
                   .credentials = grpc::InsecureChannelCredentials(),
                   .timeout = absl::Seconds(20)});
    Bell bell;
    return RunRun({.console = console_,
                   .clock = Clock::Real(),
                   .bell = bell,
                   .is_interrupted = [] { return false; },
                   .cluster = &client,
                   .last_lines_limit = limit},
                  {.command = {"true"}});
  }

  FakeCoordinator coordinator_;
  v1::GetLogsResponse logs_;
  FakeConsole console_;
};

TEST_F(LastLinesTest, AreAskedForAgain) {
  std::thread late([this] {
    coordinator_.AwaitLogsQuery();
    logs_.clear_missing();
    AddLine("w1", 2, "late");
    coordinator_.SetLogs(logs_);
  });
  const absl::StatusOr<int> code = Run(absl::Seconds(60));
  late.join();
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(console_.out, "[0] early\n[0] late\n");
  EXPECT_THAT(console_.error, Not(HasSubstr("note:")));
}

TEST_F(LastLinesTest, AreToldWhereTheyAreMissing) {
  const absl::StatusOr<int> code = Run(absl::Milliseconds(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(console_.out, "[0] early\n");
  EXPECT_THAT(console_.error, HasSubstr("note: w1 did not answer within 2s\n"));
}

TEST(RunJobSpecTest, IsAJobOfThatManyRanks) {
  const auto spec = RunJobSpec({.command = {"python3", "train.py"},
                                .ranks = 4,
                                .max_restarts = 2,
                                .environment = {"A=b=c", "D="},
                                .working_directory = "/srv"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "run");
  EXPECT_EQ(spec->workers().min(), 4);
  EXPECT_EQ(spec->workers().max(), 4);
  EXPECT_THAT(spec->external().command(), ElementsAre("python3", "train.py"));
  EXPECT_EQ(spec->external().environment().at("A"), "b=c");
  EXPECT_EQ(spec->external().environment().at("D"), "");
  EXPECT_EQ(spec->external().max_restarts(), 2);
  EXPECT_EQ(spec->external().working_directory(), "/srv");
}

TEST(RunJobSpecTest, LeavesGlooWhereItIsToldTo) {
  const auto spec = RunJobSpec({.command = {"true"}, .backend = "as_is"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->external().environment().at("RINGMASTER_TORCH"), "as_is");
  EXPECT_TRUE(
      RunJobSpec({.command = {"true"}})->external().environment().empty());
}

TEST(RunJobSpecTest, RefusesWhatIsNoVariable) {
  for (const char* entry : {"A", "=b", ""}) {
    const auto spec = RunJobSpec({.command = {"true"}, .environment = {entry}});
    EXPECT_THAT(std::string(spec.status().message()),
                HasSubstr("is not of the form NAME=VALUE"));
  }
}

}  // namespace
}  // namespace ringmaster::ctl
