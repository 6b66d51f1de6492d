#include "server/ctl/commands/run.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

TEST(RunJobSpecTest, RefusesWhatIsNoVariable) {
  for (const char* entry : {"A", "=b", ""}) {
    const auto spec = RunJobSpec({.command = {"true"}, .environment = {entry}});
    EXPECT_THAT(std::string(spec.status().message()),
                HasSubstr("is not of the form NAME=VALUE"));
  }
}

}  // namespace
}  // namespace ringmaster::ctl
