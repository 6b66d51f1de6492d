#include "common/parameter_server/message_loop.h"

#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/fail_point/fail_point.h"
#include "common/parameter_server/testing/channel_pair.h"
#include "common/transport/shared_allocator.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/testing/faulty_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps incoming messages: elements in `floats`, bytes in `bytes`.
class Keeper final : public MessageLoop::Handler {
 public:
  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int peer, const ShardMessage& message) override {
    if (!refusal.ok()) return refusal;
    if (is_closed[peer]) return std::nullopt;
    if (message.op == ShardOp::kOpen) {
      bytes.resize(static_cast<size_t>(message.count));
      return MessageSink{bytes.data()};
    }
    floats.resize(static_cast<size_t>(message.count));
    return MessageSink{reinterpret_cast<std::byte*>(floats.data()), is_sum,
                       &non_finite};
  }
  absl::Status OnComplete(int /*peer*/, const ShardMessage& message) override {
    complete.push_back(message);
    return absl::OkStatus();
  }

  std::map<int, bool> is_closed;
  absl::Status refusal;
  bool is_sum = false;
  NonFinite non_finite;
  std::vector<float> floats;
  std::vector<std::byte> bytes;
  std::vector<ShardMessage> complete;
};

ShardMessage Push(int bucket) {
  ShardMessage message;
  message.op = ShardOp::kPush;
  message.bucket = bucket;
  message.step = 5;
  return message;
}

MessageElements ElementsOf(const float* elems, size_t count) {
  return {.data = reinterpret_cast<const std::byte*>(elems),
          .count = static_cast<int64_t>(count)};
}

class MessageLoopTest : public ::testing::TestWithParam<Transport> {
 protected:
  // Rank 0 with rank 1.
  void Connect(const SharedSegment* arena = nullptr,
               int64_t other_generation = 1) {
    ChannelPair pair = MakeChannelPair(GetParam(), {0, arena}, {1, nullptr});
    first_ = LoopOf(0, 1, std::move(pair.first));
    second_ = LoopOf(1, 0, std::move(pair.second), other_generation);
  }
  std::unique_ptr<MessageLoop> LoopOf(int rank, int peer_rank,
                                      std::unique_ptr<Channel> channel,
                                      int64_t generation = 1) {
    std::vector<MessagePeer> peers;
    peers.push_back({peer_rank, std::move(channel)});
    return std::make_unique<MessageLoop>(
        MessageLoop::Options{7, generation, rank}, std::move(peers), cancel_,
        Clock::Real());
  }
  static MonotonicTime Soon() {
    return Clock::Real().Now() + absl::Seconds(30);
  }

  // Polls both loops, on this thread, until `is_done`; returns the first error.
  template <typename IsDone>
  absl::Status TurnBoth(IsDone is_done) {
    while (!is_done()) {
      for (const auto& [loop, keeper] :
           {std::pair(first_.get(), &at_first_),
            std::pair(second_.get(), &at_second_)}) {
        loop->Wake();
        const absl::Status status = loop->PollOnce(*keeper, Soon());
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }
  [[nodiscard]] auto SecondHas(size_t messages) {
    return [this, messages] { return at_second_.complete.size() >= messages; };
  }

  CancelToken cancel_;
  Keeper at_first_;
  Keeper at_second_;
  std::unique_ptr<MessageLoop> first_;
  std::unique_ptr<MessageLoop> second_;
};

TEST_P(MessageLoopTest, ElementsArriveWhateverTheirNumber) {
  Connect();
  for (const size_t count : {1, 3, 16, 4096, 65536, 65537, 300000}) {
    at_second_.complete.clear();
    std::vector<float> sent(count);
    std::iota(sent.begin(), sent.end(), 0.5f);
    first_->Send(0, Push(4), ElementsOf(sent.data(), count));
    const absl::Status status = TurnBoth(SecondHas(1));
    ASSERT_TRUE(status.ok()) << status;
    ShardMessage expected = Push(4);
    expected.count = static_cast<int64_t>(count);
    EXPECT_THAT(at_second_.complete, ElementsAre(expected));
    EXPECT_EQ(at_second_.floats, sent);
  }
  EXPECT_EQ(first_->payload_sent_bytes(),
            4 * (1 + 3 + 16 + 4096 + 65536 + 65537 + 300000));
  EXPECT_EQ(first_->TransportTo(0), GetParam());
  EXPECT_EQ(first_->RankOf(0), 1);
}

TEST_P(MessageLoopTest, MessagesAloneAndBytesArrive) {
  Connect();
  ShardMessage pull;
  pull.op = ShardOp::kPull;
  ShardMessage open;
  open.op = ShardOp::kOpen;
  const std::vector<std::byte> bytes(77, std::byte{5});
  first_->Send(0, pull);
  first_->Send(0, open,
               {.data = bytes.data(), .count = 77, .dtype = DType::kUint8});
  ASSERT_TRUE(TurnBoth(SecondHas(2)).ok());
  EXPECT_EQ(at_second_.complete[0], pull);
  EXPECT_EQ(at_second_.complete[1].count, 77);
  EXPECT_EQ(at_second_.bytes, bytes);
}

TEST_P(MessageLoopTest, BothDirectionsMoveAtOnce) {
  Connect();
  std::vector<float> sent(2000000, 3.0f);
  std::vector<float> answer(1500000, 4.0f);
  first_->Send(0, Push(0), ElementsOf(sent.data(), sent.size()));
  second_->Send(0, Push(1), ElementsOf(answer.data(), answer.size()));
  ASSERT_TRUE(TurnBoth([this] {
                return at_first_.complete.size() == 1 &&
                       at_second_.complete.size() == 1;
              }).ok());
  EXPECT_EQ(at_second_.floats, sent);
  EXPECT_EQ(at_first_.floats, answer);
}

TEST_P(MessageLoopTest, ASumIsAddedAndSeesWhatIsNotFinite) {
  Connect();
  at_second_.is_sum = true;
  at_second_.floats = {1, 2, 3};
  std::vector<float> sent = {10, 20, 30};
  first_->Send(0, Push(0), ElementsOf(sent.data(), 3));
  ASSERT_TRUE(TurnBoth(SecondHas(1)).ok());
  EXPECT_THAT(at_second_.floats, ElementsAre(11, 22, 33));
  EXPECT_EQ(at_second_.non_finite, NonFinite());
  sent[1] = std::numeric_limits<float>::infinity();
  first_->Send(0, Push(0), ElementsOf(sent.data(), 3));
  ASSERT_TRUE(TurnBoth(SecondHas(2)).ok());
  EXPECT_TRUE(at_second_.non_finite.in_wire);
  EXPECT_FALSE(at_second_.non_finite.in_elements);
}

TEST_P(MessageLoopTest, ANarrowWireRounds) {
  Connect();
  std::vector<float> sent(200000, 1.0f);
  sent[199999] = 1.0f + 1.0f / 4096;  // between two float16
  for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
    at_second_.complete.clear();
    const int64_t before = first_->payload_sent_bytes();
    MessageElements elements = ElementsOf(sent.data(), sent.size());
    elements.wire = wire;
    first_->Send(0, Push(0), elements);
    ASSERT_TRUE(TurnBoth(SecondHas(1)).ok());
    EXPECT_EQ(at_second_.complete[0].wire, wire);
    EXPECT_EQ(at_second_.floats, std::vector<float>(200000, 1.0f));
    EXPECT_EQ(first_->payload_sent_bytes() - before, 2 * 200000);
  }
}

TEST_P(MessageLoopTest, ACopyMayChangeAtOnce) {
  Connect();
  std::vector<float> sent(100000, 1.0f);
  first_->SendCopy(0, Push(0), ElementsOf(sent.data(), sent.size()));
  std::fill(sent.begin(), sent.end(), 2.0f);
  ASSERT_TRUE(TurnBoth(SecondHas(1)).ok());
  EXPECT_EQ(at_second_.floats, std::vector<float>(100000, 1.0f));
}

TEST_P(MessageLoopTest, WhatLiesInTheArenaIsFlushedOnceItWasRead) {
  SharedAllocator allocator("test");
  const absl::StatusOr<Allocation> memory = allocator.Allocate(4 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Connect(allocator.SegmentOf(memory->data()));
  auto* const elems = static_cast<float*>(memory->data());
  std::fill_n(elems, 1 << 20, 2.5f);
  EXPECT_TRUE(first_->IsFlushed(0));
  first_->Send(0, Push(0), ElementsOf(elems, 1 << 20));
  EXPECT_FALSE(first_->IsFlushed(0));
  ASSERT_TRUE(TurnBoth([this] { return first_->IsFlushed(0); }).ok());
  if (GetParam() == Transport::kSharedMemory) {
    EXPECT_EQ(at_second_.complete.size(), 1u);
  }
  std::fill_n(elems, 1 << 20, 0.0f);
  ASSERT_TRUE(TurnBoth(SecondHas(1)).ok());
  if (GetParam() == Transport::kSharedMemory) {
    EXPECT_EQ(at_second_.floats, std::vector<float>(1 << 20, 2.5f));
  }
}

TEST_P(MessageLoopTest, AWaitForAFlushEndsWithIt) {
  SharedAllocator allocator("test");
  const absl::StatusOr<Allocation> memory = allocator.Allocate(4 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Connect(allocator.SegmentOf(memory->data()));
  first_->Send(0, Push(0),
               ElementsOf(static_cast<float*>(memory->data()), 1 << 20));
  std::thread other([&] {
    while (at_second_.complete.empty())
      ASSERT_TRUE(second_->PollOnce(at_second_, Soon()).ok());
  });
  while (!first_->IsFlushed(0))
    ASSERT_TRUE(first_->PollOnce(at_first_, Soon()).ok());
  other.join();
}

TEST_P(MessageLoopTest, TheHighestPriorityGoesFirstThenTheOldest) {
  Connect();
  const std::vector<float> sent(1000, 1.0f);
  const auto send = [&](int bucket, int64_t priority) {
    first_->Send(0, Push(bucket), ElementsOf(sent.data(), sent.size()),
                 priority);
  };
  send(1, 0);
  send(2, 5);
  send(3, 5);
  send(4, -1);
  send(5, 9);
  ASSERT_TRUE(TurnBoth(SecondHas(5)).ok());
  std::vector<int> order;
  for (const ShardMessage& message : at_second_.complete)
    order.push_back(message.bucket);
  EXPECT_THAT(order, ElementsAre(5, 2, 3, 1, 4));
}

TEST_P(MessageLoopTest, ATurnWaitsUntilItIsWoken) {
  Connect();
  second_->Wake();
  EXPECT_TRUE(second_->PollOnce(at_second_, Soon()).ok());
  std::thread waker([this] { second_->Wake(); });
  EXPECT_TRUE(second_->PollOnce(at_second_, Soon()).ok());
  waker.join();
}

TEST_P(MessageLoopTest, ADeadlineNamesWhoWasWaitedFor) {
  Connect();
  second_->SetWaitingFor(0);
  const absl::Status status = second_->PollOnce(
      at_second_, Clock::Real().Now() + absl::Milliseconds(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("for rank 0"));
  EXPECT_EQ(second_->blamed_rank(), 0);
}

TEST_P(MessageLoopTest, TimeWaitedCountsForWhoWasWaitedFor) {
  Connect();
  EXPECT_EQ(second_->WaitedFor(0), absl::ZeroDuration());
  second_->SetWaitingFor(0);
  std::thread other([this] {
    first_->Send(0, Push(0));
    ASSERT_TRUE(first_->PollOnce(at_first_, Soon()).ok());
  });
  while (at_second_.complete.empty())
    ASSERT_TRUE(second_->PollOnce(at_second_, Soon()).ok());
  other.join();
  // The threads decide if it had to wait for rank 0; it never waited for
  // others.
  EXPECT_GE(second_->WaitedFor(0), absl::ZeroDuration());
  EXPECT_EQ(second_->WaitedFor(7), absl::ZeroDuration());
}

TEST_P(MessageLoopTest, APeerThatIsGoneIsNamed) {
  Connect();
  first_.reset();
  absl::Status status;
  while (status.ok()) status = second_->PollOnce(at_second_, Soon());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("with rank 0"));
  EXPECT_EQ(second_->blamed_rank(), 0);
}

TEST_P(MessageLoopTest, WhatAPeerSentBeforeItsEndStillArrives) {
  Connect();
  first_->Send(0, Push(3));
  ASSERT_TRUE(first_->PollOnce(at_first_, Soon()).ok());
  first_.reset();
  absl::Status status;
  while (status.ok()) status = second_->PollOnce(at_second_, Soon());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(at_second_.complete.size(), 1u);
}

TEST_P(MessageLoopTest, TheEndOfAPeerThatWasLeftIsNoError) {
  Connect();
  second_->Leave(0);
  first_.reset();
  const absl::Status status = second_->PollOnce(
      at_second_, Clock::Real().Now() + absl::Milliseconds(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_P(MessageLoopTest, AFrameOfAnotherGenerationIsRefusedNamingBoth) {
  Connect(nullptr, /*other_generation=*/2);
  first_->Send(0, Push(0));
  absl::Status status = TurnBoth(SecondHas(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 with rank 0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("generation"));
  EXPECT_EQ(second_->blamed_rank(), 0);
}

TEST_P(MessageLoopTest, AnErrorOfTheHandlerNamesThePeer) {
  Connect();
  at_second_.refusal = absl::FailedPreconditionError("no such bucket");
  first_->Send(0, Push(0));
  const absl::Status status = TurnBoth(SecondHas(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 with rank 0 about shards, generation 1: no "
                        "such bucket"));
}

TEST_P(MessageLoopTest, CancellationEndsAWaitAndBlamesNobody) {
  Connect();
  std::thread other([this] { cancel_.Cancel("it is over"); });
  absl::Status status;
  while (status.ok()) status = second_->PollOnce(at_second_, Soon());
  other.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(second_->blamed_rank(), -1);
}

TEST_P(MessageLoopTest, AFailPointFailsASend) {
  Connect();
  FailPoint::Arm("message_loop.send", FailPoint::Action::kError);
  first_->Send(0, Push(0));
  const absl::Status status = first_->PollOnce(at_first_, Soon());
  FailPoint::DisarmAll();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

INSTANTIATE_TEST_SUITE_P(Transports, MessageLoopTest,
                         ::testing::Values(Transport::kLoopback,
                                           Transport::kTcp, Transport::kUnix,
                                           Transport::kSharedMemory),
                         [](const auto& test) {
                           return TransportName(test.param);
                         });

// Rank 0 sends to rank 1; byte `at` of frame `frame` is inverted on its way;
// `integrity` is that of both sides.
class DamagedMessageTest : public MessageLoopTest {
 protected:
  absl::Status Damage(int64_t frame, size_t at, FrameIntegrity integrity) {
    const FrameKeys keys = {};
    auto pair = LoopbackPair("rank 1", "rank 0");
    LinkFault fault;
    fault.kind = LinkFault::Kind::kCorrupt;
    fault.at_frame = frame;
    fault.corrupt_at = at;
    first_ = LoopOf(0, 1,
                    std::make_unique<StreamChannel>(
                        0,
                        std::make_unique<FaultyLink>(std::move(pair->first),
                                                     fault, Clock::Real()),
                        Transport::kTcp, integrity, &keys));
    second_ = LoopOf(
        1, 0,
        std::make_unique<StreamChannel>(1, std::move(pair->second),
                                        Transport::kTcp, integrity, &keys));
    at_second_ = Keeper();
    at_second_.is_sum = true;
    const std::vector<float> sent(1000, 2.0f);
    first_->Send(0, Push(4), ElementsOf(sent.data(), sent.size()));
    return TurnBoth(SecondHas(1));
  }
};

TEST_P(DamagedMessageTest, IsFoundBeforeItCounts) {
  // The first frame is the message's, the second its elements'.
  for (const auto& [integrity, frame] :
       {std::pair(FrameIntegrity::kCrc32c, 1),
        std::pair(FrameIntegrity::kCrc32c, 2),
        std::pair(FrameIntegrity::kAes256Gcm, 1),
        std::pair(FrameIntegrity::kAes256Gcm, 2)}) {
    const size_t head = FrameHeadBytes(integrity);
    for (const size_t at :
         {size_t{24}, size_t{68}, head, head + kShardMessageBytes - 1}) {
      const absl::Status status = Damage(frame, at, integrity);
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("damaged frame of rank 0 to rank 1"));
      EXPECT_EQ(second_->blamed_rank(), 0);
      EXPECT_TRUE(at_second_.complete.empty());
      for (const float sum : at_second_.floats) EXPECT_EQ(sum, 0.0f);
    }
  }
}

TEST_P(DamagedMessageTest, WithoutChecksumsAHeaderOnlyMismatches) {
  const absl::Status status = Damage(1, 24, FrameIntegrity::kNone);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

INSTANTIATE_TEST_SUITE_P(OverTcp, DamagedMessageTest,
                         ::testing::Values(Transport::kTcp));

// One rank with two others: while one holds its messages up, the other's still
// arrive.
TEST(MessageLoopOfThreeTest, NotNowHoldsUpThatPeerAlone) {
  CancelToken cancel;
  ChannelPair to_first =
      MakeChannelPair(Transport::kLoopback, {0, nullptr}, {2, nullptr});
  ChannelPair to_second =
      MakeChannelPair(Transport::kLoopback, {1, nullptr}, {2, nullptr});
  const auto loop_of = [&](int rank, std::vector<MessagePeer> peers) {
    return std::make_unique<MessageLoop>(MessageLoop::Options{7, 1, rank},
                                         std::move(peers), cancel,
                                         Clock::Real());
  };
  const auto one = [](int rank, std::unique_ptr<Channel> channel) {
    std::vector<MessagePeer> peers;
    peers.push_back({rank, std::move(channel)});
    return peers;
  };
  std::vector<MessagePeer> both = one(0, std::move(to_first.second));
  both.push_back({1, std::move(to_second.second)});
  const auto first = loop_of(0, one(2, std::move(to_first.first)));
  const auto second = loop_of(1, one(2, std::move(to_second.first)));
  const auto server = loop_of(2, std::move(both));
  const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(30);
  Keeper keeper;
  const float element = 6;
  first->Send(0, Push(1), ElementsOf(&element, 1));
  first->Send(0, Push(2), ElementsOf(&element, 1));
  second->Send(0, Push(3), ElementsOf(&element, 1));
  second->Send(0, Push(4), ElementsOf(&element, 1));
  ASSERT_TRUE(first->PollOnce(keeper, deadline).ok());
  ASSERT_TRUE(second->PollOnce(keeper, deadline).ok());

  Keeper at_server;
  at_server.is_closed[0] = true;
  while (at_server.complete.size() < 2)
    ASSERT_TRUE(server->PollOnce(at_server, deadline).ok());
  EXPECT_EQ(at_server.complete[0].bucket, 3);
  EXPECT_EQ(at_server.complete[1].bucket, 4);
  at_server.is_closed[0] = false;
  while (at_server.complete.size() < 4)
    ASSERT_TRUE(server->PollOnce(at_server, deadline).ok());
  EXPECT_EQ(at_server.complete[2].bucket, 1);
  EXPECT_EQ(at_server.complete[3].bucket, 2);
}

}  // namespace
}  // namespace ringmaster
