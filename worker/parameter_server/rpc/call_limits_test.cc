#include "worker/parameter_server/rpc/call_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/logging/testing/log_capture.h"

namespace ringmaster {
namespace {

constexpr char kPull[] = "/ringmaster.v1.ParameterService/Pull";

class CallLimitsTest : public ::testing::Test {
 protected:
  grpc::ServerContext contexts_[3];
  LogCapture log_;
};

TEST_F(CallLimitsTest, OneCallTooManyIsRefusedWithALine) {
  CallLimits limits({.calls = 2});
  auto first = limits.Begin(kPull, contexts_[0]);
  const auto second = limits.Begin(kPull, contexts_[1]);
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status third = limits.Begin(kPull, contexts_[2]).status();
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_EQ(third.message(),
            "the call from unix would be one more than the 2 that may be under "
            "way at once; try again later");
  EXPECT_TRUE(log_.Contains(
      "access.refused method=/ringmaster.v1.ParameterService/Pull "
      "error=\"the call from unix would be one more than the 2"));
  first->reset();
  EXPECT_TRUE(limits.Begin(kPull, contexts_[2]).ok());
}

TEST_F(CallLimitsTest, ElementsUnderWayAreBounded) {
  CallLimits limits({.bytes = 100});
  auto first = limits.Begin(kPull, contexts_[0]);
  const auto second = limits.Begin(kPull, contexts_[1]);
  ASSERT_TRUE(first.ok() && second.ok());
  // One alone may be large: a model is as large as it is.
  EXPECT_TRUE((*first)->Hold(1000).ok());
  const absl::Status refused = (*second)->Hold(1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "the call from unix would make calls under way hold more than 100 "
            "bytes of elements; try again later");
  first->reset();
  EXPECT_TRUE((*second)->Hold(60).ok());
  EXPECT_TRUE((*second)->Hold(40).ok());
  EXPECT_FALSE((*second)->Hold(1).ok());
}

}  // namespace
}  // namespace ringmaster
