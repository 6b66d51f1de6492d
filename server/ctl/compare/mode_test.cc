#include "server/ctl/compare/mode.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

TEST(ModeTest, NamesAllReducesAndParameterServers) {
  const auto modes = ParseModes("ring,hierarchical,ps:2,ps:colocated");
  ASSERT_TRUE(modes.ok()) << modes.status();
  ASSERT_EQ(modes->size(), 4u);
  EXPECT_EQ((*modes)[0].kind, Mode::Kind::kAllReduce);
  EXPECT_EQ((*modes)[2].kind, Mode::Kind::kServers);
  EXPECT_EQ((*modes)[2].servers, 2);
  EXPECT_EQ((*modes)[3].kind, Mode::Kind::kColocated);
}

TEST(ModeTest, RefusesWhatIsNoMode) {
  for (const char* text : {"rign", "", "ring,,ps:1", "ps:", "ps:0", "ps:65",
                           "ps:-1", "ps:1x", "PS:1"}) {
    const auto modes = ParseModes(text);
    ASSERT_FALSE(modes.ok()) << text;
    EXPECT_THAT(std::string(modes.status().message()),
                HasSubstr("is no mode; there are ring"))
        << text;
  }
  const auto twice = ParseModes("ps:1,ring,ps:01");
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.status().message(), "--modes: ps:1 is there twice");
}

TEST(ModeTest, MakesAProgramTrainInItAndLeavesTheRest) {
  v1::TrainProgram program;
  program.mutable_collective()->set_connections(3);
  program.mutable_parameter_server()->set_servers(1);
  ApplyMode(*ParseMode("ring"), program);
  EXPECT_EQ(program.collective().algorithm(), v1::COLLECTIVE_ALGORITHM_RING);
  EXPECT_EQ(program.collective().connections(), 3);
  EXPECT_FALSE(program.has_parameter_server());
  ApplyMode(*ParseMode("ps:2"), program);
  EXPECT_EQ(program.collective().algorithm(),
            v1::COLLECTIVE_ALGORITHM_UNSPECIFIED);
  EXPECT_EQ(program.parameter_server().servers(), 2);
  ApplyMode(*ParseMode("ps:colocated"), program);
  EXPECT_EQ(program.parameter_server().servers(), 0);
  EXPECT_TRUE(program.parameter_server().colocated());
}

}  // namespace
}  // namespace ringmaster::ctl
