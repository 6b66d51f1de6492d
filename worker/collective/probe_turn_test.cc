#include "worker/collective/probe_turn.h"

#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ProbeTurnTest, OneHasItAtATime) {
  const std::string name = "ringmaster-test-" + std::to_string(getpid());
  std::optional<ProbeTurn> turn = ProbeTurn::Take(name);
  EXPECT_TRUE(turn.has_value());
  EXPECT_FALSE(ProbeTurn::Take(name).has_value());
  EXPECT_TRUE(ProbeTurn::Take(name + "-other").has_value());
  turn.reset();
  EXPECT_TRUE(ProbeTurn::Take(name).has_value());
}

}  // namespace
}  // namespace ringmaster
