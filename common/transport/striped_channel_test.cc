#include "common/transport/striped_channel.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/testing/faulty_link.h"
#include "common/transport/testing/test_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Progress = Channel::Progress;

constexpr int kStripes = 3;
constexpr uint64_t kFrames = 20;
// More than a socket holds: senders have to wait.
constexpr size_t kLarge = 1 << 20;

std::vector<std::byte> PayloadOf(uint64_t sequence) {
  return Pattern(sequence % 3 == 0 ? kLarge : 100, sequence);
}

// Exchanges kFrames frames each way at once, waiting for both directions.
absl::Status Exchange(Channel& channel) {
  uint64_t sent = 0;
  uint64_t received = 0;
  std::vector<std::byte> outgoing = PayloadOf(0);
  std::vector<std::byte> incoming(outgoing.size());
  while (sent < kFrames || received < kFrames) {
    bool has_moved = false;
    if (sent < kFrames) {
      ASSIGN_OR_RETURN(const Progress progress,
                       channel.TrySend(Outgoing(sent, outgoing)));
      has_moved |= progress != Progress::kBlocked;
      if (progress == Progress::kDone) outgoing = PayloadOf(++sent);
    }
    if (received < kFrames) {
      ASSIGN_OR_RETURN(const Progress progress,
                       channel.TryReceive(Incoming(received, incoming)));
      has_moved |= progress != Progress::kBlocked;
      if (progress == Progress::kDone) {
        EXPECT_EQ(incoming, PayloadOf(received));
        incoming.resize(PayloadOf(++received).size());
      }
    }
    if (has_moved || (sent == kFrames && received == kFrames)) continue;
    bool is_woken = false;
    RETURN_IF_ERROR(WaitOnce(channel, sent < kFrames, received < kFrames,
                             kTestPollMs, &is_woken));
    EXPECT_TRUE(is_woken);
  }
  return absl::OkStatus();
}

class StripedChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<Channel>> near;
    std::vector<std::unique_ptr<Channel>> far;
    for (int i = 0; i < kStripes; ++i) {
      auto pair = LoopbackPair("rank 1 at b", "rank 0 at a");
      ASSERT_TRUE(pair.ok()) << pair.status();
      near.push_back(std::make_unique<StreamChannel>(0, std::move(pair->first),
                                                     Transport::kTcp));
      far.push_back(std::make_unique<StreamChannel>(1, std::move(pair->second),
                                                    Transport::kTcp));
      far_stripes_.push_back(far.back().get());
    }
    near_ = std::make_unique<StripedChannel>(std::move(near));
    far_ = std::make_unique<StripedChannel>(std::move(far));
  }

  std::unique_ptr<Channel> near_;
  std::unique_ptr<Channel> far_;
  std::vector<Channel*> far_stripes_;  // of far_
};

TEST_F(StripedChannelTest, FramesKeepTheirOrderBothWaysAtOnce) {
  EXPECT_EQ(near_->peer(), "rank 1 at b");
  EXPECT_EQ(near_->transport(), Transport::kTcp);
  absl::Status far;
  std::thread peer([&] { far = Exchange(*far_); });
  EXPECT_TRUE(Exchange(*near_).ok());
  peer.join();
  EXPECT_TRUE(far.ok()) << far;
}

TEST_F(StripedChannelTest, NothingIsKeptForAFrameThatGoesAnotherWay) {
  const std::vector<std::byte> sent = Pattern(100, 1);
  OutgoingFrame frame = Outgoing(1, sent);
  frame.is_followed = true;
  ASSERT_TRUE(SendAll(*near_, frame).ok());
  std::vector<std::byte> got(sent.size());
  ASSERT_TRUE(ReceiveAll(*far_, Incoming(1, got)).ok());
  EXPECT_EQ(got, sent);
}

TEST_F(StripedChannelTest, WhatAPeerSentBeforeItsEndIsStillReceived) {
  std::vector<std::byte> bytes(100);
  for (uint64_t i = 0; i < kStripes + 1; ++i)
    ASSERT_TRUE(SendAll(*far_, Outgoing(i, bytes)).ok());
  far_.reset();
  EXPECT_TRUE(WaitOnce(*near_, false, false).ok());
  for (uint64_t i = 0; i < kStripes + 1; ++i) {
    EXPECT_TRUE(WaitOnce(*near_, false, true).ok()) << i;
    ASSERT_TRUE(ReceiveAll(*near_, Incoming(i, bytes)).ok()) << i;
  }
  const absl::Status end = WaitOnce(*near_, false, false);
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.message()), HasSubstr("rank 1 at b"));
}

TEST_F(StripedChannelTest, TheEndOfThePeerWakesWaitsForEitherDirection) {
  const std::vector<std::byte> bytes(kLarge);
  while (true) {
    const auto sent = near_->TrySend(Outgoing(1, bytes));
    ASSERT_TRUE(sent.ok());
    if (*sent == Progress::kBlocked) break;
  }
  std::thread peer([this] { far_->Close(); });
  absl::Status status = WaitOnce(*near_, true, true);
  peer.join();
  // A wait to receive does not report the end: the receive that follows finds
  // it.
  std::vector<std::byte> byte(1);
  if (status.ok()) status = near_->TryReceive(Incoming(1, byte)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(StripedChannelTest, IsClosedWithAllItsStripes) {
  near_->Close();
  std::vector<std::byte> byte(1);
  EXPECT_EQ(near_->TrySend(Outgoing(1, byte)).status().code(),
            absl::StatusCode::kUnavailable);
  for (Channel* stripe : far_stripes_) {
    EXPECT_EQ(stripe->TryReceive(Incoming(1, byte)).status().code(),
              absl::StatusCode::kUnavailable);
  }
}

class CheckedStripedChannelTest
    : public ::testing::TestWithParam<FrameIntegrity> {};

INSTANTIATE_TEST_SUITE_P(Integrity, CheckedStripedChannelTest,
                         ::testing::Values(FrameIntegrity::kCrc32c,
                                           FrameIntegrity::kAes256Gcm));

TEST_P(CheckedStripedChannelTest, DamageOnAnyStripeIsFound) {
  for (size_t stripe = 0; stripe < kStripes; ++stripe) {
    std::vector<std::unique_ptr<Channel>> near;
    std::vector<std::unique_ptr<Channel>> far;
    for (size_t i = 0; i < kStripes; ++i) {
      auto pair = LoopbackPair("rank 1 at b", "rank 0 at a");
      ASSERT_TRUE(pair.ok()) << pair.status();
      LinkFault fault;
      if (i == stripe) fault.kind = LinkFault::Kind::kCorrupt;
      fault.at_frame = 2;
      fault.corrupt_at = FrameHeadBytes(GetParam()) + 50;
      const FrameKeys near_keys = {.send = {std::byte(i)},
                                   .receive = {std::byte(100 + i)}};
      const FrameKeys far_keys = {.send = near_keys.receive,
                                  .receive = near_keys.send};
      near.push_back(std::make_unique<StreamChannel>(
          0,
          std::make_unique<FaultyLink>(std::move(pair->first), fault,
                                       Clock::Real()),
          Transport::kTcp, GetParam(), &near_keys));
      far.push_back(std::make_unique<StreamChannel>(
          1, std::move(pair->second), Transport::kTcp, GetParam(), &far_keys));
    }
    StripedChannel sender(std::move(near));
    StripedChannel receiver(std::move(far));
    EXPECT_EQ(receiver.integrity(), GetParam());
    const std::vector<std::byte> sent = Pattern(100, 1);
    for (uint64_t i = 0; i < 2 * kStripes; ++i) {
      ASSERT_TRUE(SendAll(sender, Outgoing(i, sent)).ok());
      std::vector<std::byte> got(sent.size());
      const absl::Status status = ReceiveAll(receiver, Incoming(i, got));
      if (i != kStripes + stripe) {
        ASSERT_TRUE(status.ok()) << i << ": " << status;
        EXPECT_EQ(got, sent);
        continue;
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("damaged frame"));
      break;
    }
  }
}

}  // namespace
}  // namespace ringmaster
