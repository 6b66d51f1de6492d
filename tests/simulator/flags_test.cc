#include "tests/simulator/flags.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::simulator {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Flags> Parse(const std::vector<const char*>& arguments) {
  return ParseFlags(arguments);
}

TEST(FlagsTest, ReadsAll) {
  const auto flags =
      Parse({"--seeds=3..12", "--jobs=2", "--bug=fence-off",
             "--holders=servers", "--liar", "--all", "--verbose"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->first, 3u);
  EXPECT_EQ(flags->last, 12u);
  EXPECT_EQ(flags->jobs, 2);
  EXPECT_EQ(flags->bug, Bug::kFenceOff);
  EXPECT_EQ(flags->bug_name, "fence-off");
  EXPECT_EQ(flags->holders, Holders::kServers);
  EXPECT_EQ(NameOf(flags->holders), "servers");
  EXPECT_TRUE(flags->has_liar);
  EXPECT_TRUE(flags->goes_on);
  EXPECT_TRUE(flags->is_verbose);
}

TEST(FlagsTest, ManyJobsAreOfRanksThatMeanWell) {
  EXPECT_TRUE(Parse({"--many"})->has_many_jobs);
  for (const char* const beside : {"--liar", "--holders=servers"}) {
    const auto flags = Parse({"--many", beside});
    EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(flags.status().message()),
                HasSubstr("--many: expected "));
  }
}

TEST(FlagsTest, FindsHoldersByTheirNames) {
  for (const Holders holders :
       {Holders::kRanks, Holders::kWorkers, Holders::kServers}) {
    EXPECT_EQ(FindHolders(NameOf(holders)), holders);
  }
  EXPECT_EQ(FindHolders(""), std::nullopt);
}

TEST(FlagsTest, OneSeedIsARange) {
  const auto flags = Parse({"--seeds=7"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->first, 7u);
  EXPECT_EQ(flags->last, 7u);
}

TEST(FlagsTest, RefusesWhatMakesNoSense) {
  for (const char* const argument :
       {"--seeds=9..1", "--seeds=", "--seeds=1..", "--seeds=1..2x",
        "--seeds=-1..2", "--jobs=0", "--jobs=65", "--jobs=two", "--bug=no-such",
        "--holders=nobody", "--al", "7"}) {
    const auto flags = Parse({"--all", argument});
    EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(flags.status().message()),
                HasSubstr(std::string(argument) + ": expected "));
  }
}

}  // namespace
}  // namespace ringmaster::simulator
