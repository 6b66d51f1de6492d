#include "common/transport/stream_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/socket_link.h"
#include "common/transport/tcp.h"
#include "common/transport/testing/faulty_link.h"
#include "common/transport/testing/test_frames.h"
#include "common/transport/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Progress = Channel::Progress;

constexpr int64_t kSmall = 100;
constexpr int64_t kLarge = 200 << 10;  // read into the elements directly

// Two wire bytes for each element of one.
void EncodeTwice(std::byte* wire, const std::byte* elements, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    wire[2 * i] = wire[2 * i + 1] = elements[i];
}

NonFinite AddHalves(std::byte* elements, const std::byte* wire, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(wire[2 * i], wire[2 * i + 1]);
    elements[i] = static_cast<std::byte>(std::to_integer<int>(elements[i]) +
                                         std::to_integer<int>(wire[2 * i]));
  }
  return {.in_elements = false, .in_wire = true};
}

// The parameter: over TCP, or over a socket pair as Unix links are.
class StreamChannelTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::unique_ptr<Link> near;
    if (GetParam()) {
      const Listener listener = *Listener::Listen("127.0.0.1:0");
      UniqueFd client = *BeginConnect(listener.address());
      pollfd writable = {client.get(), POLLOUT, 0};
      ASSERT_EQ(poll(&writable, 1, 5000), 1);
      ASSERT_TRUE(ConnectResult(client.get()).ok());
      pollfd readable = {listener.fd(), POLLIN, 0};
      ASSERT_EQ(poll(&readable, 1, 5000), 1);
      near = std::make_unique<SocketLink>(*listener.TryAccept(), "rank 1 at b");
      far_link_ =
          std::make_unique<SocketLink>(std::move(client), "rank 0 at a");
    } else {
      auto pair = LoopbackPair("rank 1 at b", "rank 0 at a");
      ASSERT_TRUE(pair.ok()) << pair.status();
      near = std::move(pair->first);
      far_link_ = std::move(pair->second);
    }
    near_ = std::make_unique<StreamChannel>(0, std::move(near),
                                            Transport::kLoopback);
  }

  // The far side as a channel as well; or far_link_ for raw bytes.
  void MakeFarChannel() {
    far_ = std::make_unique<StreamChannel>(1, std::move(far_link_),
                                           Transport::kLoopback);
  }

  // The peer dies with all that it has sent already under way to us.
  void PeerDies() {
    far_.reset();
    far_link_.reset();
  }

  void WriteRaw(const void* bytes, size_t size) {
    const iovec part = {const_cast<void*>(bytes), size};
    const absl::StatusOr<size_t> written =
        far_link_->TryWrite(std::span(&part, 1));
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_EQ(*written, size);
  }

  // Sends until the socket takes nothing more.
  void FillUp(uint64_t sequence, const std::vector<std::byte>& bytes) {
    while (true) {
      const absl::StatusOr<Progress> progress =
          near_->TrySend(Outgoing(sequence, bytes));
      ASSERT_TRUE(progress.ok()) << progress.status();
      if (*progress == Progress::kBlocked) return;
    }
  }

  std::unique_ptr<StreamChannel> near_;
  std::unique_ptr<StreamChannel> far_;
  std::unique_ptr<Link> far_link_;
};

TEST_P(StreamChannelTest, CarriesFramesOfAnySizeBothWaysAtOnce) {
  MakeFarChannel();
  uint64_t sequence = 0;
  for (const int64_t size :
       {int64_t{0}, int64_t{1}, kSmall, int64_t{16 << 10},
        int64_t{(16 << 10) + 1}, kLarge, int64_t{kMaxFramePayloadBytes}}) {
    ++sequence;
    const std::vector<std::byte> sent = Pattern(size, 1);
    const std::vector<std::byte> answer = Pattern(size, 2);
    std::vector<std::byte> got(sent.size());
    std::vector<std::byte> answered(sent.size());
    bool done[4] = {};
    const auto step = [&done](int i, const absl::StatusOr<Progress>& progress) {
      ASSERT_TRUE(progress.ok()) << progress.status();
      done[i] = *progress == Progress::kDone;
    };
    while (!done[0] || !done[1] || !done[2] || !done[3]) {
      if (!done[0]) step(0, far_->TrySend(Outgoing(sequence, sent)));
      if (!done[1]) step(1, near_->TrySend(Outgoing(sequence, answer)));
      if (!done[2]) step(2, near_->TryReceive(Incoming(sequence, got)));
      if (!done[3]) step(3, far_->TryReceive(Incoming(sequence, answered)));
    }
    EXPECT_EQ(got, sent) << size;
    EXPECT_EQ(answered, answer) << size;
  }
}

TEST_P(StreamChannelTest, ConvertsOnBothSides) {
  MakeFarChannel();
  uint64_t sequence = 0;
  for (const int64_t count : {int64_t{0}, int64_t{3}, kLarge, kSmall}) {
    ++sequence;
    const std::vector<std::byte> sent = Pattern(count, 1);
    std::vector<std::byte> sum = Pattern(count, 5);
    std::vector<std::byte> expected = sum;
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = static_cast<std::byte>(std::to_integer<int>(expected[i]) +
                                           std::to_integer<int>(sent[i]));
    }
    OutgoingFrame out = Outgoing(sequence, sent);
    out.header.payload_bytes = static_cast<uint32_t>(2 * count);
    out.encode = &EncodeTwice;
    IncomingFrame in = Incoming(sequence, sum);
    in.expected.payload_bytes = static_cast<uint32_t>(2 * count);
    in.decode = &AddHalves;
    NonFinite seen;
    in.non_finite = &seen;
    std::thread sender([&] { EXPECT_TRUE(SendAll(*far_, out).ok()); });
    const absl::Status received = ReceiveAll(*near_, in);
    sender.join();
    ASSERT_TRUE(received.ok()) << received;
    EXPECT_EQ(sum, expected) << count;
    EXPECT_EQ(seen, (NonFinite{.in_elements = false, .in_wire = true}));
  }
}

TEST_P(StreamChannelTest, ASmallFrameTravelsWithTheOneThatFollows) {
  MakeFarChannel();
  const std::vector<std::byte> small = Pattern(kSmall, 1);
  const std::vector<std::byte> large = Pattern(kLarge, 2);
  std::vector<std::byte> got_small(small.size());
  std::vector<std::byte> got_large(large.size());
  OutgoingFrame first = Outgoing(1, small);
  first.is_followed = true;
  ASSERT_EQ(*near_->TrySend(first), Progress::kDone);
  EXPECT_EQ(*far_->TryReceive(Incoming(1, got_small)), Progress::kBlocked);
  // One that is not small is not kept, whatever follows.
  OutgoingFrame second = Outgoing(2, large);
  second.is_followed = true;
  std::thread sender([&] { EXPECT_TRUE(SendAll(*near_, second).ok()); });
  EXPECT_TRUE(ReceiveAll(*far_, Incoming(1, got_small)).ok());
  EXPECT_TRUE(ReceiveAll(*far_, Incoming(2, got_large)).ok());
  sender.join();
  EXPECT_EQ(got_small, small);
  EXPECT_EQ(got_large, large);
}

TEST_P(StreamChannelTest, RefusesAFrameThatNoPeerWouldTake) {
  OutgoingFrame frame;
  frame.header = HeaderOf(1, kMaxFramePayloadBytes + 1);
  EXPECT_TRUE(absl::IsInternal(near_->TrySend(frame).status()));
}

TEST_P(StreamChannelTest, TakesAFrameByteByByte) {
  const std::vector<std::byte> sent = Pattern(kSmall, 3);
  const FrameHeaderBytes header = EncodeFrameHeader(HeaderOf(1, kSmall));
  std::vector<std::byte> all(header.begin(), header.end());
  all.insert(all.end(), sent.begin(), sent.end());
  std::vector<std::byte> got(kSmall);
  EXPECT_EQ(*near_->TryReceive(Incoming(1, got)), Progress::kBlocked);
  for (size_t i = 0; i < all.size(); ++i) {
    WriteRaw(&all[i], 1);
    bool woken = false;
    ASSERT_TRUE(WaitOnce(*near_, false, true, 5000, &woken).ok());
    ASSERT_TRUE(woken);
    EXPECT_EQ(*near_->TryReceive(Incoming(1, got)),
              i + 1 < all.size() ? Progress::kMoved : Progress::kDone);
  }
  EXPECT_EQ(got, sent);
}

TEST_P(StreamChannelTest, RefusesAnotherFrameAndLeavesTheElementsAlone) {
  MakeFarChannel();
  for (const int64_t size : {kSmall, kLarge}) {
    SetUp();
    MakeFarChannel();
    const std::vector<std::byte> sent = Pattern(size, 1);
    std::vector<std::byte> got(static_cast<size_t>(size));
    OutgoingFrame stale = Outgoing(1, sent);
    stale.header.generation = 1;
    std::thread sender([&] { (void)far_->TrySend(stale); });
    const absl::Status status = ReceiveAll(*near_, Incoming(1, got));
    sender.join();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 0 refused a frame of rank 1"));
    EXPECT_EQ(got, std::vector<std::byte>(static_cast<size_t>(size)));
  }
}

TEST_P(StreamChannelTest, SleepsUntilThereIsRoomToSend) {
  MakeFarChannel();
  const std::vector<std::byte> bytes = Pattern(kMaxFramePayloadBytes, 1);
  uint64_t sequence = 1;
  while (true) {  // until a frame is blocked
    absl::StatusOr<Progress> progress =
        near_->TrySend(Outgoing(sequence, bytes));
    ASSERT_TRUE(progress.ok()) << progress.status();
    if (*progress == Progress::kBlocked) break;
    if (*progress == Progress::kDone) ++sequence;
  }
  std::thread receiver([&] {
    std::vector<std::byte> got(bytes.size());
    for (uint64_t next = 1; next <= sequence; ++next) {
      while (true) {
        const absl::StatusOr<Progress> progress =
            far_->TryReceive(Incoming(next, got));
        ASSERT_TRUE(progress.ok()) << progress.status();
        if (*progress == Progress::kDone) break;
        if (*progress == Progress::kBlocked) {
          ASSERT_TRUE(WaitOnce(*far_, false, true).ok());
        }
      }
    }
  });
  EXPECT_TRUE(SendAll(*near_, Outgoing(sequence, bytes)).ok());
  receiver.join();
}

TEST_P(StreamChannelTest, AnIdleWaitIsNotWokenByWhatAPeerSendsAhead) {
  MakeFarChannel();
  const std::vector<std::byte> sent = Pattern(kSmall, 1);
  ASSERT_TRUE(SendAll(*far_, Outgoing(1, sent)).ok());
  bool woken = true;
  EXPECT_TRUE(WaitOnce(*near_, false, false, 1, &woken).ok());
  EXPECT_FALSE(woken);
  std::vector<std::byte> got(kSmall);
  EXPECT_TRUE(ReceiveAll(*near_, Incoming(1, got)).ok());
}

TEST_P(StreamChannelTest, APeerThatDiesWakesEveryKindOfWait) {
  for (const bool for_send : {false, true}) {
    for (const bool for_receive : {false, true}) {
      SetUp();
      std::vector<std::byte> got(kSmall);
      const std::vector<std::byte> sent = Pattern(kMaxFramePayloadBytes, 1);
      if (for_send) FillUp(1, sent);
      if (for_receive) {
        EXPECT_EQ(*near_->TryReceive(Incoming(1, got)), Progress::kBlocked);
      }
      std::thread killer([this] { PeerDies(); });
      bool woken = false;
      absl::Status status =
          WaitOnce(*near_, for_send, for_receive, 5000, &woken);
      killer.join();
      EXPECT_TRUE(woken) << for_send << for_receive;
      if (for_receive) {
        EXPECT_TRUE(status.ok()) << status;
        status = ReceiveAll(*near_, Incoming(1, got));
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << for_send << for_receive;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 1 at b closed its connection"));
      EXPECT_EQ(LinkFailureOf(status), LinkFailure::kClosed);
    }
  }
}

TEST_P(StreamChannelTest, ASendToADeadPeerFails) {
  PeerDies();
  const std::vector<std::byte> sent = Pattern(kMaxFramePayloadBytes, 1);
  absl::Status status;
  for (uint64_t i = 1; i < 10 && status.ok(); ++i)
    status = SendAll(*near_, Outgoing(i, sent));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 at b"));
}

TEST_P(StreamChannelTest, WhatAPeerSentBeforeItsEndIsReceivedFirst) {
  MakeFarChannel();
  const std::vector<std::byte> sent = Pattern(kSmall, 1);
  for (const uint64_t sequence : {1, 2})
    ASSERT_TRUE(SendAll(*far_, Outgoing(sequence, sent)).ok());
  PeerDies();
  bool woken = false;
  EXPECT_TRUE(WaitOnce(*near_, false, false, 5000, &woken).ok());
  EXPECT_TRUE(woken);
  // Its end is known now: no busy waiting for it.
  EXPECT_TRUE(WaitOnce(*near_, false, false, 1, &woken).ok());
  EXPECT_FALSE(woken);
  std::vector<std::byte> got(kSmall);
  EXPECT_TRUE(ReceiveAll(*near_, Incoming(1, got)).ok());
  EXPECT_EQ(got, sent);
  // The same holds if the second frame's header was read with the first.
  EXPECT_TRUE(WaitOnce(*near_, false, false, 1, &woken).ok());
  EXPECT_FALSE(woken);
  EXPECT_TRUE(ReceiveAll(*near_, Incoming(2, got)).ok());
  const absl::Status status = WaitOnce(*near_, false, false, 5000, &woken);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(woken);
}

TEST_P(StreamChannelTest, AHeaderReadAheadOutlivesThePeer) {
  MakeFarChannel();
  const std::vector<std::byte> sent = Pattern(kSmall, 1);
  const std::vector<std::byte> empty;
  ASSERT_TRUE(SendAll(*far_, Outgoing(1, sent)).ok());
  ASSERT_TRUE(SendAll(*far_, Outgoing(2, empty)).ok());
  std::vector<std::byte> got(kSmall);
  ASSERT_TRUE(ReceiveAll(*near_, Incoming(1, got)).ok());
  PeerDies();
  EXPECT_TRUE(WaitOnce(*near_, false, false).ok());
  std::vector<std::byte> nothing;
  EXPECT_TRUE(ReceiveAll(*near_, Incoming(2, nothing)).ok());
  EXPECT_TRUE(absl::IsUnavailable(WaitOnce(*near_, false, false)));
}

TEST_P(StreamChannelTest, AWaitToSendFailsAlthoughThePeerLeftSomething) {
  const std::byte something{1};
  WriteRaw(&something, 1);
  FillUp(1, Pattern(kMaxFramePayloadBytes, 1));
  PeerDies();
  EXPECT_TRUE(absl::IsUnavailable(WaitOnce(*near_, true, false)));
}

TEST_P(StreamChannelTest, APeerThatDiesAmidAFrameIsNamed) {
  for (const size_t bytes : {size_t{10}, kFrameHeaderBytes, size_t{100}}) {
    SetUp();
    const FrameHeaderBytes header = EncodeFrameHeader(HeaderOf(1, kLarge));
    std::vector<std::byte> all(header.begin(), header.end());
    all.resize(100);
    WriteRaw(all.data(), bytes);
    std::vector<std::byte> got(kLarge);
    EXPECT_EQ(*near_->TryReceive(Incoming(1, got)), Progress::kMoved);
    PeerDies();
    const absl::Status status = ReceiveAll(*near_, Incoming(1, got));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 at b closed its connection"));
  }
}

TEST_P(StreamChannelTest, CloseEndsBothSidesAndWakesThem) {
  MakeFarChannel();
  std::thread closer([this] { near_->Close(); });
  bool woken = false;
  const absl::Status near = WaitOnce(*near_, false, true, 5000, &woken);
  closer.join();
  EXPECT_TRUE(woken);
  EXPECT_TRUE(absl::IsUnavailable(near)) << near;
  EXPECT_THAT(std::string(near.message()), HasSubstr("closed on our side"));
  EXPECT_TRUE(absl::IsUnavailable(WaitOnce(*far_, false, false)));
  std::vector<std::byte> bytes(kSmall);
  EXPECT_TRUE(absl::IsUnavailable(near_->TrySend(Outgoing(1, bytes)).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(near_->TryReceive(Incoming(1, bytes)).status()));
  near_->Close();
}

TEST_P(StreamChannelTest, KnowsItsPeerAndTransport) {
  EXPECT_EQ(near_->peer(), "rank 1 at b");
  EXPECT_EQ(near_->transport(), Transport::kLoopback);
  EXPECT_TRUE(near_->sends_taken());
  EXPECT_TRUE(near_->CheckPeer(MonotonicTime()).ok());
}

INSTANTIATE_TEST_SUITE_P(Tcp, StreamChannelTest, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(SocketPair, StreamChannelTest,
                         ::testing::Values(false));

NonFinite AddBytes(std::byte* elements, const std::byte* wire, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = static_cast<std::byte>(std::to_integer<int>(elements[i]) +
                                         std::to_integer<int>(wire[i]));
  }
  return {};
}

// Two channels whose frames carry `integrity`, over a link that inverts byte
// `corrupt_at` of the first frame.
struct CheckedPair {
  CheckedPair(FrameIntegrity integrity, size_t corrupt_at) {
    const FrameKeys far_keys = {.send = {std::byte{1}},
                                .receive = {std::byte{2}}};
    const FrameKeys near_keys = {.send = far_keys.receive,
                                 .receive = far_keys.send};
    auto pair = LoopbackPair("rank 1 at b", "rank 0 at a");
    LinkFault fault;
    fault.kind = LinkFault::Kind::kCorrupt;
    fault.corrupt_at = corrupt_at;
    far = std::make_unique<StreamChannel>(
        1,
        std::make_unique<FaultyLink>(std::move(pair->second), fault,
                                     Clock::Real()),
        Transport::kTcp, integrity, &far_keys);
    near = std::make_unique<StreamChannel>(
        0, std::move(pair->first), Transport::kTcp, integrity, &near_keys);
  }
  // Passes one frame of `sent`, which near receives as `into`.
  absl::Status Pass(const std::vector<std::byte>& sent,
                    const IncomingFrame& into) const {
    absl::Status status;
    std::thread sender([&] {
      // It may find the channel closed.
      SendAll(*far, Outgoing(1, sent)).IgnoreError();
    });
    status = ReceiveAll(*near, into);
    near->Close();
    sender.join();
    return status;
  }
  std::unique_ptr<StreamChannel> near;
  std::unique_ptr<StreamChannel> far;
};

class CheckedStreamChannelTest
    : public ::testing::TestWithParam<FrameIntegrity> {
 protected:
  [[nodiscard]] static CheckedPair Pair(size_t corrupt_at) {
    return {GetParam(), corrupt_at};
  }
  [[nodiscard]] static size_t HeadBytes() { return FrameHeadBytes(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Integrity, CheckedStreamChannelTest,
                         ::testing::Values(FrameIntegrity::kCrc32c,
                                           FrameIntegrity::kAes256Gcm));

TEST_P(CheckedStreamChannelTest, DamagedBytesNeverReachASum) {
  // Read with its header, or on its own.
  for (const int64_t size : {kSmall, kLarge}) {
    for (const size_t at : {size_t{24}, size_t{64}, size_t{68}, HeadBytes(),
                            HeadBytes() + static_cast<size_t>(size) - 1}) {
      const std::vector<std::byte> sent = Pattern(static_cast<size_t>(size), 1);
      std::vector<std::byte> sums(sent.size(), std::byte{7});
      IncomingFrame into = Incoming(1, sums);
      into.count = size;
      into.decode = AddBytes;
      const absl::Status status = Pair(at).Pass(sent, into);
      EXPECT_TRUE(absl::IsUnavailable(status)) << at << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("damaged frame of rank 1 to rank 0"));
      EXPECT_EQ(sums, std::vector<std::byte>(sent.size(), std::byte{7})) << at;
    }
  }
}

TEST_P(CheckedStreamChannelTest, ADamagedCopyIsAnError) {
  for (const int64_t size : {kSmall, kLarge}) {
    const std::vector<std::byte> sent = Pattern(static_cast<size_t>(size), 1);
    std::vector<std::byte> got(sent.size());
    const absl::Status status =
        Pair(HeadBytes() + 5).Pass(sent, Incoming(1, got));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
}

}  // namespace
}  // namespace ringmaster
