#include "common/transport/loopback_channels.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "common/fail_point/fail_point.h"
#include "common/transport/testing/test_frames.h"
#include "common/transport/wire_totals.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 64 << 10;

class LoopbackChannelsTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_memory())
      FailPoint::Arm("share_memory.create", FailPoint::Action::kError);
    auto made = MakeLoopbackChannels(3, {"rank 3 as a worker", &arena_},
                                     {"rank 3 as a holder"});
    FailPoint::DisarmAll();
    ASSERT_TRUE(made.ok()) << made.status();
    worker_ = std::move(made->first);
    holder_ = std::move(made->second);
    const std::vector<std::byte> bytes = Pattern(kBytes, 1);
    std::copy(bytes.begin(), bytes.end(), arena_.at());
  }

  bool has_memory() const { return GetParam(); }

  SharedSegment arena_ = SharedSegment::Create("test", kBytes).value();
  std::unique_ptr<Channel> worker_;
  std::unique_ptr<Channel> holder_;
};

TEST_P(LoopbackChannelsTest, CarryFramesBothWaysAndCountNoTraffic) {
  const WireTotals before = WireTotalsSoFar();
  std::vector<std::byte> at_holder(kBytes);
  std::thread sender([&] {
    EXPECT_TRUE(
        SendAll(*worker_, Outgoing(1, std::span(arena_.at(), kBytes))).ok());
  });
  EXPECT_TRUE(ReceiveAll(*holder_, Incoming(1, at_holder)).ok());
  sender.join();
  EXPECT_EQ(at_holder, Pattern(kBytes, 1));
  const std::vector<std::byte> answer = Pattern(100, 2);
  std::vector<std::byte> at_worker(100);
  EXPECT_TRUE(SendAll(*holder_, Outgoing(1, answer)).ok());
  EXPECT_TRUE(ReceiveAll(*worker_, Incoming(1, at_worker)).ok());
  EXPECT_EQ(at_worker, answer);
  EXPECT_EQ(WireTotalsSoFar().sent_bytes, before.sent_bytes);
  EXPECT_EQ(WireTotalsSoFar().received_bytes, before.received_bytes);
  EXPECT_EQ(worker_->transport(), Transport::kLoopback);
  EXPECT_EQ(worker_->peer(), "rank 3 as a holder");
}

TEST_P(LoopbackChannelsTest, WhoIsLeftReadsWhatWasSentAndThenSeesTheEnd) {
  const std::vector<std::byte> last = Pattern(100, 3);
  ASSERT_TRUE(SendAll(*worker_, Outgoing(1, last)).ok());
  worker_.reset();
  std::vector<std::byte> got(100);
  ASSERT_TRUE(ReceiveAll(*holder_, Incoming(1, got)).ok());
  EXPECT_EQ(got, last);
  const absl::Status status = ReceiveAll(*holder_, Incoming(2, got));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3 as a worker"));
}

TEST_P(LoopbackChannelsTest, ReadLargeFramesWhereTheyLie) {
  if (!has_memory()) GTEST_SKIP() << "a stream copies";
  ASSERT_TRUE(
      SendAll(*worker_, Outgoing(1, std::span(arena_.at(), kBytes))).ok());
  EXPECT_FALSE(worker_->sends_taken());
  std::vector<std::byte> got(kBytes);
  ASSERT_TRUE(ReceiveAll(*holder_, Incoming(1, got)).ok());
  EXPECT_TRUE(worker_->sends_taken());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutMemory, LoopbackChannelsTest,
                         ::testing::Bool());

}  // namespace
}  // namespace ringmaster
