#include "worker/collective/nccl/nccl_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(NcclSettingsTest, LeavesNcclAloneUnlessAskedFor) {
  EXPECT_THAT(NcclVariables({}, "host"), IsEmpty());
  EXPECT_THAT(NcclVariables({.ring = true}, "host"),
              UnorderedElementsAre(Pair("NCCL_ALGO", "Ring")));
}

TEST(NcclSettingsTest, MakesEachProcessAHostThatSharesItsGpu) {
  const auto list = NcclVariables({.share_gpu = true}, "host 7");
  const std::map<std::string, std::string> variables(list.begin(), list.end());
  EXPECT_EQ(variables.size(), list.size()) << "a variable is there twice";
  EXPECT_EQ(variables.at("NCCL_HOSTID"), "host 7");
  EXPECT_EQ(variables.at("NCCL_NET"), "Socket");
  EXPECT_EQ(variables.at("NCCL_SOCKET_IFNAME"), "lo");
  EXPECT_EQ(variables.at("NCCL_ALGO"), "Ring");
  EXPECT_EQ(variables.at("NCCL_PROTO"), "Simple");
}

TEST(NcclSettingsTest, AreSetOnceInAProcess) {
  setenv("NCCL_PROTO", "LL", 1);
  ASSERT_TRUE(ApplyNcclSettings({.share_gpu = true}).ok());
  EXPECT_STREQ(getenv("NCCL_NET"), "Socket");
  EXPECT_THAT(getenv("NCCL_HOSTID"), HasSubstr("ringmaster-"));
  EXPECT_STREQ(getenv("NCCL_PROTO"), "LL") << "the user's word was not kept";

  EXPECT_TRUE(ApplyNcclSettings({.share_gpu = true}).ok());
  const absl::Status other = ApplyNcclSettings({.ring = true});
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("has ring=0 share_gpu=1, not ring=1 share_gpu=0"));
}

}  // namespace
}  // namespace ringmaster
