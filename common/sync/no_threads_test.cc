#include <gtest/gtest.h>

#include <thread>

namespace ringmaster {
namespace {

TEST(NoThreadsDeathTest, AThreadOfATestThatHasNoneEndsIt) {
  EXPECT_DEATH(std::thread([] {}).join(),
               "error: this test starts a thread: its rule must say threads = True");
}

}  // namespace
}  // namespace ringmaster
