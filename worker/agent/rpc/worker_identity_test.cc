#include "worker/agent/rpc/worker_identity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ParsePredecessorTest, TellsAnExitFromASignal) {
  EXPECT_EQ(*ParsePredecessor("4711:0:9"), (ProcessEnd{4711, 0, 9}));
  EXPECT_EQ(*ParsePredecessor("12:138:0"), (ProcessEnd{12, 138, 0}));
}

TEST(ParsePredecessorTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "4711", "4711:0", "4711:0:9:1", "x:0:9", "4711::9", "0:0:9",
        "-1:0:9", "4711:256:0", "4711:-1:0", "4711:0:65", "4711:0:-9",
        "99999999999999999999:0:9"}) {
    const absl::Status status = ParsePredecessor(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("got '" + std::string(text) + "'"));
  }
}

}  // namespace
}  // namespace ringmaster
