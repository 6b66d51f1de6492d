#include "server/ctl/commands/run.h"

#include <string>
#include <vector>

#include "common/config/flag_help.h"
#include "common/config/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

Arguments Apart(const Arguments& arguments) {
  FlagSet flags("ringctl", "");
  bool insecure = false;
  std::string coordinator;
  flags.Add({.name = "coordinator", .unit = "HOST:PORT"}, &coordinator);
  flags.Add({.name = "insecure"}, &insecure);
  RunOptions options;
  AddRunCommand(flags, options);
  HelpPage known;
  for (const HelpPage& page : flags.Pages())
    known.flags.insert(known.flags.end(), page.flags.begin(), page.flags.end());
  return WithCommandApart(arguments, known);
}

TEST(WithCommandApartTest, LeavesTheCommandsFlagsToIt) {
  EXPECT_EQ(Apart({"run", "python3", "train.py", "-n", "5"}),
            (Arguments{"run", "--", "python3", "train.py", "-n", "5"}));
  EXPECT_EQ(
      Apart({"--insecure", "--coordinator", "head:1", "run", "-n", "4",
             "--env=A=b", "--env", "C=d", "-n2", "cmd", "--help"}),
      (Arguments{"--insecure", "--coordinator", "head:1", "run", "-n", "4",
                 "--env=A=b", "--env", "C=d", "-n2", "--", "cmd", "--help"}));
}

TEST(WithCommandApartTest, LeavesOtherCommandLinesAlone) {
  for (const Arguments& arguments :
       {Arguments{"run", "-n", "4", "--", "cmd", "--", "-n"},
        Arguments{"run", "--help"}, Arguments{"run", "-n", "4"},
        Arguments{"local", "run", "x"}, Arguments{"--coordinator", "run"},
        Arguments{}}) {
    EXPECT_EQ(Apart(arguments), arguments);
  }
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
