#include "common/transport/cancel_token.h"

#include <poll.h>

#include <thread>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(CancelTokenTest, WakesAPollAndKeepsTheFirstReason) {
  CancelToken token;
  EXPECT_FALSE(token.is_cancelled());
  EXPECT_TRUE(token.status().ok());
  std::thread canceller([&] {
    token.Cancel("halt");
    token.Cancel("too late");
  });
  pollfd readable = {token.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 5000), 1);
  canceller.join();
  EXPECT_TRUE(token.is_cancelled());
  EXPECT_EQ(token.status(), absl::AbortedError("halt"));
}

TEST(CancelTokenTest, CarriesAStatusOfAnyCode) {
  CancelToken token;
  token.CancelWith(absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(token.status(), absl::UnavailableError("rank 1 is gone"));
}

}  // namespace
}  // namespace ringmaster
