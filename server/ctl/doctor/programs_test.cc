#include "server/ctl/doctor/programs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(ProgramsTest, AllOfOneBundle) {
  EXPECT_EQ(ProgramFindings({{"worker", "/opt/worker", "ringmaster 1", ""}},
                            "ringmaster 1"),
            std::vector{Good("program worker", "/opt/worker, ringmaster 1")});
}

TEST(ProgramsTest, MissingBrokenAndOfAnotherRelease) {
  const std::vector<Finding> findings =
      ProgramFindings({{"a", "", "", "cannot find the program a"},
                       {"b", "/opt/b", "", "it ended with 127"},
                       {"c", "/opt/c", "ringmaster 0", ""}},
                      "ringmaster 1");
  EXPECT_EQ(findings[0].level, Level::kWarning);
  EXPECT_EQ(findings[0].what, "cannot find the program a");
  EXPECT_EQ(findings[1].level, Level::kFailure);
  EXPECT_THAT(findings[1].what, HasSubstr("does not run: it ended with 127"));
  EXPECT_EQ(findings[2].level, Level::kFailure);
  EXPECT_THAT(findings[2].what, HasSubstr("ringctl is ringmaster 1"));
}

TEST(ProgramsTest, TheyAreAskedThemselves) {
  const fs::path directory = fs::path(std::getenv("TEST_TMPDIR")) / "bin";
  fs::create_directory(directory);
  const auto write = [&](const char* name, const char* script) {
    std::ofstream(directory / name) << script;
    fs::permissions(directory / name, fs::perms::owner_all);
  };
  write("coordinator", "#!/bin/sh\necho \"ringmaster 7 $1\"\n");
  write("worker", "#!/bin/sh\nexit 3\n");
  const std::vector<ProgramFacts> programs =
      GatherProgramFacts({.bin_dir = directory.string()});
  ASSERT_EQ(programs.size(), 3);
  EXPECT_EQ(programs[0].version, "ringmaster 7 --version");
  EXPECT_EQ(programs[1].path, "");
  EXPECT_THAT(programs[1].error, HasSubstr("parameter_server"));
  EXPECT_EQ(programs[2].version, "");
  EXPECT_EQ(programs[2].error, "it ended with 3");
}

}  // namespace
}  // namespace ringmaster::ctl
