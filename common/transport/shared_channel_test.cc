#include "common/transport/shared_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/little_endian.h"
#include "common/transport/socket_link.h"
#include "common/transport/testing/test_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Progress = Channel::Progress;

constexpr SharedSlots kSlots = {.count = 4, .payload_bytes = 4096};
constexpr size_t kArenaBytes = 256 << 10;

SharedSegment SomeSegment(size_t bytes) {
  absl::StatusOr<SharedSegment> segment =
      SharedSegment::Create("ringmaster test", bytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}

PeerSegment Map(const SharedSegment& segment) {
  absl::StatusOr<PeerSegment> view = PeerSegment::Map(
      UniqueFd(fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)), segment.bytes());
  EXPECT_TRUE(view.ok()) << view.status();
  return *std::move(view);
}

using ChannelPtr = std::unique_ptr<SharedChannel>;

using ViewFn = PeerSegment (*)(const SharedSegment&);

// Rank 0's and rank 1's ends. With PeerSegment::ViewOf both see the same
// addresses, so that ThreadSanitizer knows what they share; but then neither
// may outlive the other.
std::pair<ChannelPtr, ChannelPtr> MakePair(ViewFn view = Map) {
  auto links = LoopbackPair("rank 1", "rank 0");
  EXPECT_TRUE(links.ok()) << links.status();
  SharedSegment first = SomeSegment(SegmentBytes(kSlots));
  SharedSegment second = SomeSegment(SegmentBytes(kSlots));
  SharedChannel::PeerSide of_first = {view(first), kSlots, {}};
  SharedChannel::PeerSide of_second = {view(second), kSlots, {}};
  return {
      std::make_unique<SharedChannel>(
          0, std::move(links->first),
          SharedChannel::Side{std::move(first), kSlots}, std::move(of_second)),
      std::make_unique<SharedChannel>(
          1, std::move(links->second),
          SharedChannel::Side{std::move(second), kSlots}, std::move(of_first))};
}

Progress Send(Channel& channel, const OutgoingFrame& frame) {
  const absl::StatusOr<Progress> progress = channel.TrySend(frame);
  EXPECT_TRUE(progress.ok()) << progress.status();
  return progress.value_or(Progress::kBlocked);
}

Progress Receive(Channel& channel, const IncomingFrame& frame) {
  const absl::StatusOr<Progress> progress = channel.TryReceive(frame);
  EXPECT_TRUE(progress.ok()) << progress.status();
  return progress.value_or(Progress::kBlocked);
}

// One channel of rank 0, whose peer the test plays.
class SharedChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto links = LoopbackPair("rank 1", "rank 0");
    ASSERT_TRUE(links.ok()) << links.status();
    peer_socket_ = std::move(links->second);
    SharedSegment own = SomeSegment(SegmentBytes(kSlots));
    own_view_.emplace(Map(own));
    peer_segment_.emplace(SomeSegment(SegmentBytes(kSlots)));
    arena_.emplace(SomeSegment(kArenaBytes));
    peer_arena_.emplace(SomeSegment(kArenaBytes));
    channel_ = std::make_unique<SharedChannel>(
        0, std::move(links->first),
        SharedChannel::Side{std::move(own), kSlots, &*arena_},
        SharedChannel::PeerSide{Map(*peer_segment_), kSlots,
                                Map(*peer_arena_)});
  }

  SharedControl& peer() {
    return *reinterpret_cast<SharedControl*>(peer_segment_->at());
  }
  const SharedControl& own() const {
    return *reinterpret_cast<const SharedControl*>(own_view_->at());
  }
  std::byte* PeerSlot(uint64_t index) {
    return peer_segment_->at() + SlotOffset(kSlots, index);
  }
  // Publishes a frame as the peer, in slot 0.
  void Publish(const FrameHeader& header, std::byte place = kInSlot,
               uint64_t offset = 0) {
    FrameHeaderBytes bytes = EncodeFrameHeader(header);
    bytes[kPlaceByte] = place;
    std::memcpy(PeerSlot(0), bytes.data(), bytes.size());
    if (place != kInSlot)
      StoreLittleEndian(offset, PeerSlot(0) + kFrameHeaderBytes);
    peer().published = 1;
  }
  absl::Status ReceiveStatus(const IncomingFrame& frame) {
    return channel_->TryReceive(frame).status();
  }

  std::unique_ptr<Link> peer_socket_;
  std::optional<PeerSegment> own_view_;
  std::optional<SharedSegment> peer_segment_;
  std::optional<SharedSegment> arena_;
  std::optional<SharedSegment> peer_arena_;
  ChannelPtr channel_;
};

TEST_F(SharedChannelTest, CarriesFramesOfEverySizeBothWays) {
  auto [first, second] = MakePair();
  uint64_t sequence = 0;
  for (const size_t size : {0u, 1u, 63u, 64u, 65u, 1000u, 4095u, 4096u}) {
    for (int i = 0; i < 2 * static_cast<int>(kSlots.count); ++i) {
      const std::vector<std::byte> sent = Pattern(size, ++sequence);
      std::vector<std::byte> got(size);
      Channel& from = i % 3 == 0 ? *first : *second;
      Channel& to = i % 3 == 0 ? *second : *first;
      ASSERT_EQ(Send(from, Outgoing(sequence, sent)), Progress::kDone);
      EXPECT_TRUE(from.sends_taken());
      ASSERT_EQ(Receive(to, Incoming(sequence, got)), Progress::kDone);
      EXPECT_EQ(got, sent);
      EXPECT_EQ(Receive(to, Incoming(sequence, got)), Progress::kBlocked);
    }
  }
  EXPECT_EQ(first->transport(), Transport::kSharedMemory);
  EXPECT_EQ(first->peer(), "rank 1");
  EXPECT_TRUE(first->CheckPeer(MonotonicTime()).ok());
}

TEST_F(SharedChannelTest, EncodesIntoTheSlotAndDecodesFromIt) {
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(8, 1);
  OutgoingFrame out = Outgoing(1, sent);
  out.header.payload_bytes = 16;
  out.encode = [](std::byte* wire, const std::byte* elements, int64_t count) {
    for (int64_t i = 0; i < count; ++i) wire[2 * i] = elements[i];
  };
  std::vector<std::byte> got(8, std::byte{1});
  IncomingFrame in = Incoming(1, got);
  in.expected.payload_bytes = 16;
  in.decode = [](std::byte* elements, const std::byte* wire, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      elements[i] = static_cast<std::byte>(std::to_integer<int>(elements[i]) +
                                           std::to_integer<int>(wire[2 * i]));
    return NonFinite{.in_elements = false, .in_wire = true};
  };
  NonFinite seen = {.in_elements = true, .in_wire = false};
  in.non_finite = &seen;
  ASSERT_EQ(Send(*first, out), Progress::kDone);
  ASSERT_EQ(Receive(*second, in), Progress::kDone);
  EXPECT_EQ(got, Pattern(8, 2));
  EXPECT_TRUE(seen.in_elements && seen.in_wire);  // gained, not replaced
}

TEST_F(SharedChannelTest, IsBlockedWhileAllSlotsAreTaken) {
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> got(100);
  for (uint64_t i = 0; i < kSlots.count; ++i)
    ASSERT_EQ(Send(*first, Outgoing(i, sent)), Progress::kDone);
  EXPECT_EQ(Send(*first, Outgoing(kSlots.count, sent)), Progress::kBlocked);
  pollfd polled;
  EXPECT_TRUE(BeginWait(*first, /*for_send=*/true, false, polled));
  ASSERT_EQ(Receive(*second, Incoming(0, got)), Progress::kDone);
  // Rung once for the sleep, however many slots become free.
  ASSERT_EQ(Receive(*second, Incoming(1, got)), Progress::kDone);
  EXPECT_EQ(poll(&polled, 1, 0), 1);
  std::byte bells[8];
  EXPECT_EQ(recv(polled.fd, bells, sizeof bells, MSG_PEEK), 1);
  EXPECT_TRUE(EndWait(*first, polled).ok());
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_EQ(Send(*first, Outgoing(kSlots.count, sent)), Progress::kDone);
}

TEST_F(SharedChannelTest, ASenderThatSleepsIsWokenBySlots) {
  auto [first, second] = MakePair(PeerSegment::ViewOf);
  constexpr uint64_t kFrames = 2000;
  std::thread receiver([&second = second] {
    std::vector<std::byte> got(4096);
    for (uint64_t i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(ReceiveAll(*second, Incoming(i, got)).ok());
      ASSERT_EQ(got, Pattern(4096, i));
    }
  });
  for (uint64_t i = 0; i < kFrames; ++i) {
    const std::vector<std::byte> sent = Pattern(4096, i);
    ASSERT_TRUE(SendAll(*first, Outgoing(i, sent)).ok());
  }
  receiver.join();
}

TEST_F(SharedChannelTest, DoesNotSleepOverWhatHasComeAlready) {
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(100, 1);
  ASSERT_EQ(Send(*first, Outgoing(1, sent)), Progress::kDone);
  pollfd polled;
  EXPECT_FALSE(BeginWait(*second, false, /*for_receive=*/true, polled));
  EXPECT_TRUE(EndWait(*second, polled).ok());
  // Nobody was asleep, so nobody was rung.
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  // A wait for slots is not woken by frames.
  for (uint64_t i = 0; i < kSlots.count; ++i)
    ASSERT_EQ(Send(*second, Outgoing(i, sent)), Progress::kDone);
  ASSERT_EQ(Send(*second, Outgoing(9, sent)), Progress::kBlocked);
  EXPECT_TRUE(BeginWait(*second, /*for_send=*/true, false, polled));
  ASSERT_EQ(Send(*first, Outgoing(2, sent)), Progress::kDone);
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_TRUE(EndWait(*second, polled).ok());
}

TEST_F(SharedChannelTest, NoWakeUpIsLostHoweverTheTwoSidesMeet) {
  auto [first, second] = MakePair(PeerSegment::ViewOf);
  constexpr uint64_t kRounds = 100000;
  const auto play = [](Channel& channel, bool serves, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(8);
    for (uint64_t i = 0; i < kRounds; ++i) {
      if (serves) {
        ASSERT_TRUE(SendAll(channel, Outgoing(i, bytes)).ok());
      }
      for (uint32_t spins = random() % 64; spins > 0; --spins)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      // The timeout is far longer than a round: a poll that runs into it has
      // lost a wake-up.
      while (true) {
        const absl::StatusOr<Progress> got =
            channel.TryReceive(Incoming(i, bytes));
        ASSERT_TRUE(got.ok()) << got.status();
        if (*got == Progress::kDone) break;
        if (random() % 4 != 0) continue;
        pollfd polled;
        if (BeginWait(channel, false, true, polled)) {
          ASSERT_EQ(poll(&polled, 1, 60000), 1) << "nobody rang in round " << i;
        }
        ASSERT_TRUE(EndWait(channel, polled).ok());
      }
      if (!serves) {
        ASSERT_TRUE(SendAll(channel, Outgoing(i, bytes)).ok());
      }
    }
  };
  std::thread other(
      [&play, &second = second] { play(*second, /*serves=*/false, 2); });
  play(*first, /*serves=*/true, 1);
  other.join();
}

TEST_F(SharedChannelTest, RefusesAFrameLargerThanASlot) {
  const std::vector<std::byte> sent = Pattern(4097, 1);
  const absl::Status status = channel_->TrySend(Outgoing(1, sent)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("a frame of 4097 bytes to rank 1"));
  std::vector<std::byte> got(4097);
  Publish(HeaderOf(1, got.size()));
  const absl::Status refused = ReceiveStatus(Incoming(1, got));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("outside of what it shares"));
}

TEST_F(SharedChannelTest, AcceptsNoneOfAMillionStaleFrames) {
  std::vector<std::byte> got(100);
  const IncomingFrame expected = Incoming(7, got);
  std::mt19937_64 random(5);
  for (int i = 0; i < 1'000'000; ++i) {
    FrameHeader stale = expected.expected;
    switch (random() % 5) {
      case 0:
        stale.generation -= 1 + random() % 2;
        break;
      case 1:
        stale.sequence = random();
        break;
      case 2:
        stale.offset += 1 + random() % 1000;
        break;
      case 3:
        stale.payload_bytes = static_cast<uint32_t>(random());
        break;
      default:
        stale.source_rank = 2 + random() % 100;
    }
    Publish(stale);
    std::memset(PeerSlot(0) + kFrameHeaderBytes, 0xee, 64);
    ASSERT_TRUE(absl::IsFailedPrecondition(ReceiveStatus(expected)));
  }
  EXPECT_EQ(got, std::vector<std::byte>(100));
  EXPECT_EQ(own().taken, 0u);
  Publish(expected.expected);
  EXPECT_EQ(Receive(*channel_, expected), Progress::kDone);
}

TEST_F(SharedChannelTest, RefusesABlankSlotAndAnUnknownPlace) {
  std::vector<std::byte> got(100);
  peer().published = 1;
  const absl::Status blank = ReceiveStatus(Incoming(1, got));
  EXPECT_TRUE(absl::IsFailedPrecondition(blank)) << blank;
  EXPECT_THAT(blank.message(),
              HasSubstr("rank 0 refused what rank 1 published: not a frame"));
  Publish(HeaderOf(1, 100), std::byte{2});
  EXPECT_THAT(ReceiveStatus(Incoming(1, got)).message(),
              HasSubstr("in place 2 at 0, outside of what it shares"));
  Publish(HeaderOf(2, 100));
  EXPECT_THAT(ReceiveStatus(Incoming(1, got)).message(),
              HasSubstr("rank 0 refused a frame of rank 1 at generation 2, "
                        "sequence 1: sequence is 2, expected 1"));
}

TEST_F(SharedChannelTest, RefusesCountersThatCannotBe) {
  std::vector<std::byte> bytes(100);
  for (const uint64_t published : {uint64_t{kSlots.count} + 1, ~uint64_t{0}}) {
    peer().published = published;
    const absl::Status status = ReceiveStatus(Incoming(1, bytes));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(),
                HasSubstr("rank 0 refused the shared memory of rank 1: it has "
                          "published"));
  }
  for (uint64_t i = 0; i < kSlots.count; ++i)
    ASSERT_EQ(Send(*channel_, Outgoing(i, bytes)), Progress::kDone);
  for (const uint64_t taken : {uint64_t{kSlots.count} + 1, ~uint64_t{0}}) {
    peer().taken = taken;
    const absl::Status status = channel_->TrySend(Outgoing(9, bytes)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("it has taken"));
  }
}

// Otherwise the wait for frames that are read in place would never end.
TEST_F(SharedChannelTest, AWaitEndsWithACounterThatCannotBe) {
  const std::span<std::byte> sent(arena_->at(), kMinInPlaceBytes);
  ASSERT_EQ(Send(*channel_, Outgoing(1, sent)), Progress::kDone);
  pollfd polled;
  for (const uint64_t taken : {uint64_t{2}, ~uint64_t{0}}) {
    peer().taken = 0;
    ASSERT_TRUE(BeginWait(*channel_, /*for_send=*/true, false, polled));
    peer().taken = taken;
    const absl::Status status = EndWait(*channel_, polled);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(),
                HasSubstr("rank 0 refused the shared memory of rank 1: it has "
                          "taken"));
    EXPECT_FALSE(BeginWait(*channel_, /*for_send=*/true, false, polled));
    EXPECT_TRUE(absl::IsFailedPrecondition(EndWait(*channel_, polled)));
    EXPECT_FALSE(channel_->sends_taken());
  }
}

TEST_F(SharedChannelTest, SurvivesAPeerWhoseSegmentHoldsAnything) {
  std::mt19937_64 random(17);
  std::vector<std::byte> bytes(20000);
  for (int round = 0; round < 20000; ++round) {
    if (round % 64 == 0) SetUp();
    // Now and then only small lies, which get further.
    const uint64_t mask = random() % 2 == 0 ? 7 : ~uint64_t{0};
    peer().published = random() & mask;
    peer().taken = random() & mask;
    peer().sleep = random() & mask;
    peer().is_closed = random() % 16 == 0 ? random() : 0;
    const IncomingFrame expected = Incoming(
        1, std::span(bytes.data(), random() % 2 == 0 ? 64 : bytes.size()));
    for (uint64_t slot = 0; slot < kSlots.count; ++slot) {
      FrameHeaderBytes header = EncodeFrameHeader(expected.expected);
      header[kPlaceByte] = static_cast<std::byte>(random() % 3);
      if (random() % 4 == 0)
        header[random() % header.size()] = static_cast<std::byte>(random());
      std::memcpy(PeerSlot(slot), header.data(), header.size());
      StoreLittleEndian(random() % 2 == 0 ? random() : random() % kArenaBytes,
                        PeerSlot(slot) + kFrameHeaderBytes);
    }
    for (int i = 0; i < 4; ++i) {
      // Every outcome is a Status.
      (void)channel_->TryReceive(expected).ok();
      (void)channel_->TrySend(Outgoing(1, std::span(bytes.data(), 100))).ok();
      (void)WaitOnce(*channel_, random() % 2 == 0, random() % 2 == 0,
                     /*timeout_ms=*/0)
          .ok();
      (void)channel_->sends_taken();
    }
  }
}

TEST_F(SharedChannelTest, ReadsALargeFrameOfTheArenaInPlace) {
  const std::span<std::byte> sent(arena_->at() + 100, kMinInPlaceBytes);
  const std::vector<std::byte> pattern = Pattern(sent.size(), 3);
  std::copy(pattern.begin(), pattern.end(), sent.begin());
  ASSERT_EQ(Send(*channel_, Outgoing(1, sent)), Progress::kDone);
  EXPECT_FALSE(channel_->sends_taken());
  pollfd polled;
  EXPECT_TRUE(BeginWait(*channel_, /*for_send=*/true, false, polled));
  EXPECT_TRUE(EndWait(*channel_, polled).ok());
  const std::byte* const slot = own_view_->at() + SlotOffset(kSlots, 0);
  EXPECT_EQ(slot[kPlaceByte], kInArena);
  EXPECT_EQ(LoadLittleEndian<uint64_t>(slot + kFrameHeaderBytes), 100u);
  peer().taken = 1;
  EXPECT_TRUE(channel_->sends_taken());
  EXPECT_FALSE(BeginWait(*channel_, /*for_send=*/true, false, polled));
  EXPECT_TRUE(EndWait(*channel_, polled).ok());
  // A small one, one that is encoded, and one outside are copied.
  const std::vector<std::byte> outside = Pattern(64, 1);
  ASSERT_EQ(Send(*channel_, Outgoing(2, sent.first(64))), Progress::kDone);
  ASSERT_EQ(Send(*channel_, Outgoing(3, outside)), Progress::kDone);
  OutgoingFrame encoded = Outgoing(4, sent);
  encoded.header.payload_bytes = 64;
  encoded.encode = [](std::byte* wire, const std::byte* elements, int64_t) {
    std::memcpy(wire, elements, 64);
  };
  ASSERT_EQ(Send(*channel_, encoded), Progress::kDone);
  EXPECT_TRUE(channel_->sends_taken());

  Publish(HeaderOf(1, kMinInPlaceBytes), kInArena, 5000);
  std::copy(pattern.begin(), pattern.end(), peer_arena_->at() + 5000);
  std::vector<std::byte> got(kMinInPlaceBytes);
  ASSERT_EQ(Receive(*channel_, Incoming(1, got)), Progress::kDone);
  EXPECT_EQ(got, pattern);
}

TEST_F(SharedChannelTest, RefusesAPlaceOutsideTheArena) {
  std::vector<std::byte> got(kMinInPlaceBytes);
  for (const uint64_t offset :
       {uint64_t{kArenaBytes - kMinInPlaceBytes + 1}, uint64_t{kArenaBytes},
        uint64_t{kArenaBytes + 1}, ~uint64_t{0},
        ~uint64_t{0} - kMinInPlaceBytes + 1}) {
    Publish(HeaderOf(1, got.size()), kInArena, offset);
    const absl::Status status = ReceiveStatus(Incoming(1, got));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  }
  Publish(HeaderOf(1, got.size()), kInArena, kArenaBytes - kMinInPlaceBytes);
  EXPECT_TRUE(ReceiveStatus(Incoming(1, got)).ok());
}

TEST_F(SharedChannelTest, BelievesNothingReadInPlaceFromAClosedPeer) {
  std::vector<std::byte> got(kMinInPlaceBytes);
  Publish(HeaderOf(1, got.size()), kInArena, 0);
  peer().is_closed = 1;
  const absl::Status status = ReceiveStatus(Incoming(1, got));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(own().taken, 0u);
}

TEST_F(SharedChannelTest, AnOldGenerationsPeerReachesNobodyInTheNext) {
  auto [old_first, zombie] = MakePair();
  old_first->Close();
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> got(100);
  // The zombie believes that it goes on.
  const absl::StatusOr<Progress> progress = zombie->TrySend(Outgoing(1, sent));
  EXPECT_TRUE(absl::IsUnavailable(progress.status())) << progress.status();
  EXPECT_EQ(Receive(*first, Incoming(1, got)), Progress::kBlocked);
  EXPECT_EQ(Receive(*second, Incoming(1, got)), Progress::kBlocked);
}

TEST_F(SharedChannelTest, WhatAZombieWritesIntoItsOldSegmentChangesNothing) {
  std::optional<SharedSegment> zombie = std::move(peer_segment_);
  const std::unique_ptr<Link> zombie_socket = std::move(peer_socket_);
  SetUp();
  std::vector<std::byte> got(100);
  std::memset(zombie->at(), 0xff, zombie->bytes());
  iovec bell = {got.data(), 1};
  (void)zombie_socket->TryWrite(std::span(&bell, 1)).ok();
  EXPECT_EQ(Receive(*channel_, Incoming(1, got)), Progress::kBlocked);
  pollfd polled;
  EXPECT_TRUE(BeginWait(*channel_, false, true, polled));
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_TRUE(EndWait(*channel_, polled).ok());
  EXPECT_EQ(got, std::vector<std::byte>(100));
}

TEST_F(SharedChannelTest, WhatWasPublishedBeforeTheEndIsStillReceived) {
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> got(100);
  ASSERT_EQ(Send(*second, Outgoing(1, sent)), Progress::kDone);
  ASSERT_EQ(Send(*second, Outgoing(2, sent)), Progress::kDone);
  second.reset();
  // Waiting for the peer's end alone neither fails yet nor spins.
  pollfd polled;
  EXPECT_TRUE(BeginWait(*first, false, false, polled));
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_TRUE(EndWait(*first, polled).ok());
  EXPECT_TRUE(WaitOnce(*first, false, true).ok());
  EXPECT_EQ(Receive(*first, Incoming(1, got)), Progress::kDone);
  EXPECT_TRUE(absl::IsUnavailable(first->TrySend(Outgoing(1, sent)).status()));
  EXPECT_EQ(Receive(*first, Incoming(2, got)), Progress::kDone);
  EXPECT_EQ(got, sent);
  const absl::Status end = first->TryReceive(Incoming(3, got)).status();
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_EQ(end.message(), "rank 1 closed its connection");
  EXPECT_TRUE(absl::IsUnavailable(WaitOnce(*first, false, true)));
  EXPECT_TRUE(absl::IsUnavailable(WaitOnce(*first, false, false)));
}

TEST_F(SharedChannelTest, ABlockedSendFailsWhenThePeerEnds) {
  auto [first, second] = MakePair();
  const std::vector<std::byte> sent = Pattern(100, 1);
  for (uint64_t i = 0; i < kSlots.count; ++i)
    ASSERT_EQ(Send(*first, Outgoing(i, sent)), Progress::kDone);
  ASSERT_EQ(Send(*first, Outgoing(9, sent)), Progress::kBlocked);
  pollfd polled;
  EXPECT_TRUE(BeginWait(*first, true, false, polled));
  second.reset();
  EXPECT_EQ(poll(&polled, 1, 0), 1);
  EXPECT_TRUE(absl::IsUnavailable(EndWait(*first, polled)));
}

TEST_F(SharedChannelTest, CloseWakesTheOwnThreadInPoll) {
  std::thread closer([&] { channel_->Close(); });
  std::vector<std::byte> got(100);
  const absl::Status status = ReceiveAll(*channel_, Incoming(1, got));
  closer.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), "the channel to rank 1 was closed");
  EXPECT_TRUE(
      absl::IsUnavailable(channel_->TrySend(Outgoing(1, got)).status()));
  EXPECT_EQ(own().is_closed, 1u);
  channel_->Close();
}

TEST_F(SharedChannelTest, BytesOnTheSocketOnlyWakeUp) {
  std::vector<std::byte> garbage(1000, std::byte{0xff});
  iovec part = {garbage.data(), garbage.size()};
  ASSERT_TRUE(peer_socket_->TryWrite(std::span(&part, 1)).ok());
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(WaitOnce(*channel_, false, true).ok());
  pollfd polled;
  EXPECT_TRUE(BeginWait(*channel_, false, true, polled));
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_TRUE(EndWait(*channel_, polled).ok());
}

// Runs `body` as rank 1 in a process of its own, which then waits to be killed.
class PeerProcess {
 public:
  explicit PeerProcess(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    body();
    while (true) pause();
  }
  void Kill() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  ~PeerProcess() { Kill(); }

 private:
  pid_t pid_;
};

TEST_F(SharedChannelTest, AKilledPeerWakesASleeperOnceItsFramesAreTaken) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                       sockets),
            0);
  SharedSegment first = SomeSegment(SegmentBytes(kSlots));
  SharedSegment second = SomeSegment(SegmentBytes(kSlots));
  const std::vector<std::byte> sent = Pattern(1000, 4);
  std::vector<std::byte> got(1000);
  PeerProcess process([&] {
    close(sockets[0]);
    SharedChannel peer(
        1, std::make_unique<SocketLink>(UniqueFd(sockets[1]), "rank 0"),
        SharedChannel::Side{std::move(second), kSlots},
        SharedChannel::PeerSide{Map(first), kSlots, {}});
    for (uint64_t i = 1; i <= 3; ++i) {
      if (!SendAll(peer, Outgoing(i, sent)).ok()) _exit(1);
      if (!ReceiveAll(peer, Incoming(i, got)).ok()) _exit(1);
    }
    if (!SendAll(peer, Outgoing(4, sent)).ok()) _exit(1);
    while (true) pause();
  });
  close(sockets[1]);
  PeerSegment view = Map(second);
  SharedChannel channel(
      0, std::make_unique<SocketLink>(UniqueFd(sockets[0]), "rank 1"),
      SharedChannel::Side{std::move(first), kSlots},
      SharedChannel::PeerSide{std::move(view), kSlots, {}});
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(ReceiveAll(channel, Incoming(i, got)).ok());
    ASSERT_EQ(got, sent);
    ASSERT_TRUE(SendAll(channel, Outgoing(i, sent)).ok());
  }
  pollfd polled;
  while (BeginWait(channel, false, true, polled)) {
    ASSERT_EQ(poll(&polled, 1, 60000), 1);
    ASSERT_TRUE(EndWait(channel, polled).ok());
  }
  ASSERT_TRUE(EndWait(channel, polled).ok());
  process.Kill();
  ASSERT_TRUE(ReceiveAll(channel, Incoming(4, got)).ok());
  ASSERT_TRUE(BeginWait(channel, false, true, polled));
  ASSERT_EQ(poll(&polled, 1, 60000), 1);
  const absl::Status status = EndWait(channel, polled);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), "rank 1 closed its connection");
}

}  // namespace
}  // namespace ringmaster
