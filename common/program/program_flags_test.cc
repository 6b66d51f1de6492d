#include "common/program/program_flags.h"

#include <sys/prctl.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/logging/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Parse(const std::vector<std::string>& arguments,
                   ProgramFlags& flags) {
  FlagSet set("some_program", "Runs for long.");
  AddProgramFlags(set, flags);
  return set.Parse(arguments).status();
}

TEST(ProgramFlagsTest, LogsAsTheFlagsSay) {
  const std::string file = ::testing::TempDir() + "/program_flags.log";
  ProgramFlags flags;
  ASSERT_TRUE(
      Parse({"--log_level=warning", "--log_format=json", "--log_file=" + file},
            flags)
          .ok());
  ASSERT_TRUE(StartLog(flags, "worker", "w3").ok());
  LogEvent(LogLevel::kInfo, "test.dropped");
  LogEvent(LogLevel::kWarning, "test.kept");
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), AllOf(HasSubstr("\"test.kept\""), HasSubstr("\"w3\""),
                                Not(HasSubstr("test.dropped"))));
}

TEST(ProgramFlagsTest, RefusesWhatNobodyCanLogBy) {
  ProgramFlags flags;
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--log_level=loud"}, flags)));
  flags.log_format = "prose";
  EXPECT_TRUE(absl::IsInvalidArgument(StartLog(flags, "worker", "")));
  flags = {};
  const std::string file = ::testing::TempDir() + "/no_directory";
  std::ofstream(file) << "a file";
  flags.log_file = file + "/log";
  const absl::Status status = StartLog(flags, "worker", "");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(flags.log_file));
}

TEST(ProgramFlagsTest, FollowsItsParentOnlyIfAsked) {
  ProgramFlags flags;
  int signal = -1;
  ASSERT_TRUE(FollowParent(flags).ok());
  ASSERT_EQ(prctl(PR_GET_PDEATHSIG, &signal), 0);
  EXPECT_EQ(signal, 0);
  ASSERT_TRUE(Parse({"--die_with_parent"}, flags).ok());
  ASSERT_TRUE(FollowParent(flags).ok());
  ASSERT_EQ(prctl(PR_GET_PDEATHSIG, &signal), 0);
  EXPECT_EQ(signal, SIGTERM);
  prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace
}  // namespace ringmaster
