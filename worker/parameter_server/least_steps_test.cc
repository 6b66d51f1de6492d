#include "worker/parameter_server/least_steps.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(LeastStepsTest, AreOfPrimariesElseOfCopiesElseWhereItBegan) {
  LeastSteps least;
  EXPECT_EQ(least.CompleteStep(7), 7);
  least.Add({.of_copies = 9});
  least.Add({.of_copies = 8});
  EXPECT_EQ(least.CompleteStep(7), 8);
  least.Add({.of_primaries = 11, .of_copies = 3});
  least.Add({.of_primaries = 12});
  EXPECT_EQ(least.CompleteStep(7), 11);
  EXPECT_EQ(least.of_copies, 3);
}

}  // namespace
}  // namespace ringmaster
