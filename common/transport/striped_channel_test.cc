#include "common/transport/striped_channel.h"

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Progress = Channel::Progress;

constexpr int kStripes = 3;
constexpr int kFrames = 20;
// More than a socket holds: senders have to wait.
constexpr size_t kLarge = 1 << 20;

FrameHeader HeaderOf(int sequence, size_t bytes) {
  FrameHeader header;
  header.sequence = static_cast<uint64_t>(sequence);
  header.payload_bytes = static_cast<uint32_t>(bytes);
  return header;
}

absl::Status WaitOnce(Channel& channel, bool for_send, bool for_receive) {
  pollfd polled = {-1, 0, 0};
  if (channel.BeginWait(for_send, for_receive, polled)) {
    EXPECT_EQ(poll(&polled, 1, 10'000), 1) << "nothing woke the wait";
  }
  return channel.EndWait(polled);
}

std::vector<std::byte> Pattern(int sequence) {
  const size_t size = sequence % 3 == 0 ? kLarge : 100;
  return std::vector<std::byte>(size, static_cast<std::byte>(sequence));
}

// Exchanges kFrames frames each way at once, waiting for both directions.
absl::Status Exchange(Channel& channel) {
  int sent = 0;
  int received = 0;
  std::vector<std::byte> outgoing = Pattern(0);
  std::vector<std::byte> incoming(Pattern(0).size());
  while (sent < kFrames || received < kFrames) {
    bool has_moved = false;
    if (sent < kFrames) {
      auto progress =
          channel.TrySend({HeaderOf(sent, outgoing.size()), outgoing.data(),
                           static_cast<int64_t>(outgoing.size())});
      if (!progress.ok()) return progress.status();
      has_moved |= *progress != Progress::kBlocked;
      if (*progress == Progress::kDone) outgoing = Pattern(++sent);
    }
    if (received < kFrames) {
      auto progress = channel.TryReceive(
          {HeaderOf(received, incoming.size()), incoming.data(),
           static_cast<int64_t>(incoming.size())});
      if (!progress.ok()) return progress.status();
      has_moved |= *progress != Progress::kBlocked;
      if (*progress == Progress::kDone) {
        EXPECT_EQ(incoming, Pattern(received));
        incoming.resize(Pattern(++received).size());
      }
    }
    if (has_moved || (sent == kFrames && received == kFrames)) continue;
    const absl::Status status =
        WaitOnce(channel, sent < kFrames, received < kFrames);
    if (!status.ok()) return status;
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
    near_ = StripedChannel::Create(std::move(near)).value();
    far_ = StripedChannel::Create(std::move(far)).value();
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

TEST_F(StripedChannelTest, WhatAPeerSentBeforeItsEndIsStillReceived) {
  std::vector<std::byte> bytes(100, std::byte{7});
  for (int i = 0; i < kStripes + 1; ++i) {
    const auto sent =
        far_->TrySend({HeaderOf(i, bytes.size()), bytes.data(), 100});
    ASSERT_TRUE(sent.ok() && *sent == Progress::kDone);
  }
  far_.reset();
  EXPECT_TRUE(WaitOnce(*near_, false, false).ok());
  for (int i = 0; i < kStripes + 1; ++i) {
    EXPECT_TRUE(WaitOnce(*near_, false, true).ok()) << i;
    const auto got =
        near_->TryReceive({HeaderOf(i, bytes.size()), bytes.data(), 100});
    ASSERT_TRUE(got.ok() && *got == Progress::kDone) << got.status();
  }
  const absl::Status end = WaitOnce(*near_, false, false);
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.message()), HasSubstr("rank 1 at b"));
}

TEST_F(StripedChannelTest, TheEndOfThePeerWakesWaitsForEitherDirection) {
  const std::vector<std::byte> bytes(kLarge);
  while (true) {
    const auto sent = near_->TrySend(
        {HeaderOf(1, kLarge), bytes.data(), static_cast<int64_t>(kLarge)});
    ASSERT_TRUE(sent.ok());
    if (*sent == Progress::kBlocked) break;
  }
  std::thread peer([this] { far_->Close(); });
  absl::Status status = WaitOnce(*near_, true, true);
  peer.join();
  // A wait to receive leaves it to the receiving to find the end.
  std::byte byte{};
  if (status.ok())
    status = near_->TryReceive({HeaderOf(1, 1), &byte, 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(StripedChannelTest, IsClosedWithAllItsStripes) {
  near_->Close();
  std::byte byte{};
  EXPECT_EQ(near_->TrySend({HeaderOf(1, 1), &byte, 1}).status().code(),
            absl::StatusCode::kUnavailable);
  for (Channel* stripe : far_stripes_) {
    EXPECT_EQ(stripe->TryReceive({HeaderOf(1, 1), &byte, 1}).status().code(),
              absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace ringmaster
