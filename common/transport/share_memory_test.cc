#include "common/transport/share_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <thread>
#include <utility>

#include "common/clock/testing/fake_clock.h"
#include "common/fail_point/fail_point.h"
#include "common/transport/establish.h"
#include "common/transport/share_message.h"
#include "common/transport/socket_link.h"
#include "common/transport/unique_fd.h"
#include "common/transport/wait_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Channels = absl::StatusOr<std::vector<std::unique_ptr<Channel>>>;

constexpr SharedSlots kSlots = {.count = 2, .payload_bytes = 4096};

int64_t OpenFds() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

struct Ends {
  UniqueFd first;
  UniqueFd second;
};

Ends UnixSockets() {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                       sockets),
            0);
  return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
}

std::vector<PeerStream> StreamTo(int peer_rank, UniqueFd socket,
                                 Transport transport = Transport::kUnix) {
  std::vector<PeerStream> streams(1);
  streams[0].peer_rank = peer_rank;
  streams[0].link = std::make_unique<SocketLink>(
      std::move(socket), "rank " + std::to_string(peer_rank));
  streams[0].transport = transport;
  return streams;
}

struct Fallbacks {
  std::vector<std::string> lines;
};

ShareMemoryConfig ConfigOf(int rank, Fallbacks* fallbacks = nullptr) {
  ShareMemoryConfig config;
  config.rank = rank;
  config.clock = &Clock::Real();
  config.deadline = config.clock->Now() + absl::Seconds(60);
  config.slots = kSlots;
  if (fallbacks != nullptr) {
    config.on_fallback = [fallbacks](int, const std::string& why) {
      fallbacks->lines.push_back(why);
    };
  }
  return config;
}

// The results of ranks 0 and 1.
struct Outcome {
  Channels first;
  Channels second;
};

Outcome MakeBoth(const ShareMemoryConfig& first,
                 const ShareMemoryConfig& second,
                 const SharedSegment* arena_of_first = nullptr) {
  Ends ends = UnixSockets();
  Outcome outcome = {absl::UnknownError(""), absl::UnknownError("")};
  std::thread other([&] {
    outcome.second = MakeChannels(second, StreamTo(0, std::move(ends.second)));
  });
  std::vector<PeerStream> streams = StreamTo(1, std::move(ends.first));
  streams[0].arena = arena_of_first;
  outcome.first = MakeChannels(first, std::move(streams));
  other.join();
  EXPECT_TRUE(outcome.first.ok()) << outcome.first.status();
  EXPECT_TRUE(outcome.second.ok()) << outcome.second.status();
  return outcome;
}

// Sends one frame and receives it.
void Pass(Channel& from, Channel& to, std::span<const std::byte> sent) {
  OutgoingFrame out;
  out.header.payload_bytes = static_cast<uint32_t>(sent.size());
  out.elements = sent.data();
  out.count = static_cast<int64_t>(sent.size());
  std::vector<std::byte> got(sent.size());
  IncomingFrame in;
  in.expected = out.header;
  in.elements = got.data();
  in.count = out.count;
  absl::StatusOr<Channel::Progress> progress = from.TrySend(out);
  ASSERT_TRUE(progress.ok()) << progress.status();
  ASSERT_EQ(*progress, Channel::Progress::kDone);
  do {
    progress = to.TryReceive(in);
    ASSERT_TRUE(progress.ok()) << progress.status();
  } while (*progress != Channel::Progress::kDone);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
}

TEST(ShareMemoryTest, GivesBothSidesOneSharedChannel) {
  const int64_t before = OpenFds();
  {
    const Outcome outcome = MakeBoth(ConfigOf(0), ConfigOf(1));
    Channel& first = *outcome.first->at(0);
    Channel& second = *outcome.second->at(0);
    EXPECT_EQ(first.transport(), Transport::kSharedMemory);
    EXPECT_EQ(second.transport(), Transport::kSharedMemory);
    const std::vector<std::byte> sent(4096, std::byte{5});
    Pass(first, second, sent);
    Pass(second, first, sent);
    // No descriptor but the sockets is kept.
    EXPECT_EQ(OpenFds(), before + 2);
  }
  EXPECT_EQ(OpenFds(), before);
}

TEST(ShareMemoryTest, TwoSidesMayHaveOtherSlots) {
  ShareMemoryConfig larger = ConfigOf(1);
  larger.slots = {.count = 5, .payload_bytes = 8192};
  const Outcome outcome = MakeBoth(ConfigOf(0), larger);
  const std::vector<std::byte> sent(8192, std::byte{5});
  for (int i = 0; i < 12; ++i) {
    Pass(*outcome.second->at(0), *outcome.first->at(0), sent);
    Pass(*outcome.first->at(0), *outcome.second->at(0),
         std::span(sent).first(4096));
  }
}

TEST(ShareMemoryTest, LetsThePeerReadTheArena) {
  const absl::StatusOr<SharedSegment> arena =
      SharedSegment::Create("arena", 1 << 20);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const Outcome outcome = MakeBoth(ConfigOf(0), ConfigOf(1), &*arena);
  std::memset(arena->at(), 3, 1 << 20);
  // Larger than a slot, so it can only have been read in place.
  Pass(*outcome.first->at(0), *outcome.second->at(0),
       std::span(arena->at() + 4096, 100000));
  EXPECT_TRUE(outcome.first->at(0)->sends_taken());
}

TEST(ShareMemoryTest, LeavesOtherStreamsAsTheyAre) {
  Ends ends = UnixSockets();
  Fallbacks fallbacks;
  const Channels channels =
      MakeChannels(ConfigOf(0, &fallbacks),
                   StreamTo(1, std::move(ends.first), Transport::kTcp));
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_EQ(channels->at(0)->transport(), Transport::kTcp);
  EXPECT_TRUE(fallbacks.lines.empty());
  EXPECT_TRUE(MakeChannels(ConfigOf(0), {})->empty());
}

TEST(ShareMemoryTest, GoesOnAsAStreamWhereOneSideHasItSwitchedOff) {
  Fallbacks of_first;
  Fallbacks of_second;
  ShareMemoryConfig off = ConfigOf(0, &of_first);
  off.use_shared_memory = false;
  const Outcome outcome = MakeBoth(off, ConfigOf(1, &of_second));
  EXPECT_EQ(outcome.first->at(0)->transport(), Transport::kUnix);
  EXPECT_EQ(outcome.second->at(0)->transport(), Transport::kUnix);
  const std::vector<std::byte> sent(1000, std::byte{5});
  Pass(*outcome.first->at(0), *outcome.second->at(0), sent);
  Pass(*outcome.second->at(0), *outcome.first->at(0), sent);
  EXPECT_THAT(of_first.lines,
              ElementsAre("rank 0 shares no memory: it is switched off"));
  EXPECT_THAT(of_second.lines,
              ElementsAre("rank 0 shares no memory: it is switched off"));
}

TEST(ShareMemoryTest, GoesOnAsAStreamWhereMemoryIsRefused) {
  for (const char* point : {"share_memory.create", "share_memory.map"}) {
    const int64_t before = OpenFds();
    FailPoint::Arm(point, FailPoint::Action::kError);
    Fallbacks fallbacks;
    const Outcome outcome = MakeBoth(ConfigOf(0, &fallbacks), ConfigOf(1));
    FailPoint::DisarmAll();
    EXPECT_EQ(outcome.first->at(0)->transport(), Transport::kUnix);
    EXPECT_EQ(outcome.second->at(0)->transport(), Transport::kUnix);
    const std::vector<std::byte> sent(1000, std::byte{5});
    Pass(*outcome.first->at(0), *outcome.second->at(0), sent);
    EXPECT_THAT(
        fallbacks.lines,
        ElementsAre(std::string("rank 0 shares no memory: fail point ") +
                    point));
    EXPECT_EQ(OpenFds(), before + 2);
  }
}

TEST(ShareMemoryTest, RefusesSlotsThatCannotBe) {
  ShareMemoryConfig config = ConfigOf(0);
  config.slots.count = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(MakeChannels(config, {}).status()));
}

// The test plays rank 1: its messages are in the socket before rank 0 begins.
class MisbehavingPeerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (int& fd : fds_) close(fd);
    fds_.clear();
    ends_ = Ends();
    EXPECT_EQ(OpenFds(), before_);
  }
  // A memfd with all or none of the seals.
  int Memfd(size_t bytes, bool is_sealed) {
    const int fd = memfd_create("by hand", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(fallocate(fd, 0, 0, static_cast<off_t>(bytes)), 0);
    if (is_sealed) {
      EXPECT_EQ(fcntl(fd, F_ADD_SEALS,
                      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE |
                          F_SEAL_SEAL),
                0);
    }
    fds_.push_back(fd);
    return fd;
  }
  static ShareMessage Offer() {
    ShareMessage offer;
    offer.is_yes = true;
    offer.slots = kSlots;
    offer.segment_bytes = SegmentBytes(kSlots);
    return offer;
  }
  void Say(const ShareMessage& message, const std::vector<int>& fds) {
    const absl::StatusOr<bool> sent =
        SendShareMessage(ends_.second.get(), message, fds);
    EXPECT_TRUE(sent.ok() && *sent) << sent.status();
  }
  // Returns the status that rank 0 ends with; at once, if it waits for more.
  absl::Status Fate() {
    FakeClock clock;
    ShareMemoryConfig config = ConfigOf(0);
    config.clock = &clock;
    config.deadline = clock.Now();
    const absl::Status status =
        MakeChannels(config, StreamTo(1, std::move(ends_.first))).status();
    EXPECT_THAT(status.message(), HasSubstr("rank 1"));
    EXPECT_EQ(BlamedPeer(status), 1);
    EXPECT_FALSE(IsUnreached(status));
    return status;
  }
  void ExpectRefused(const char* why) {
    const absl::Status status = Fate();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_THAT(status.message(), HasSubstr("rank 0 sharing memory with"));
  }

  const int64_t before_ = OpenFds();
  Ends ends_ = UnixSockets();
  std::vector<int> fds_;
};

TEST_F(MisbehavingPeerTest, SendsGarbage) {
  const std::string garbage(kShareMessageBytes, 'x');
  ASSERT_GT(send(ends_.second.get(), garbage.data(), garbage.size(), 0), 0);
  ExpectRefused("it said not a word about shared memory");
}

TEST_F(MisbehavingPeerTest, OffersLessThanItSays) {
  Say(Offer(), {Memfd(SegmentBytes(kSlots) - 1, true)});
  ExpectRefused("were announced");
}

TEST_F(MisbehavingPeerTest, OffersWhatIsNotSealed) {
  Say(Offer(), {Memfd(SegmentBytes(kSlots), false)});
  ExpectRefused("has seals");
}

TEST_F(MisbehavingPeerTest, OffersAnArenaSmallerThanItSays) {
  ShareMessage offer = Offer();
  offer.arena_bytes = 10000;
  Say(offer, {Memfd(SegmentBytes(kSlots), true), Memfd(9999, true)});
  ExpectRefused("has 9999 bytes; 10000 were announced");
}

TEST_F(MisbehavingPeerTest, OffersAnArenaNobodyCanMap) {
  // Sizes are checked before anything is mapped.
  ShareMessage offer = Offer();
  offer.arena_bytes = ~uint64_t{0};
  Say(offer, {Memfd(SegmentBytes(kSlots), true), Memfd(9999, true)});
  ExpectRefused("were announced");
}

TEST_F(MisbehavingPeerTest, OffersNoDescriptor) {
  Say(Offer(), {});
  ExpectRefused("an offer with 0 descriptors, where an offer with 1 was");
}

TEST_F(MisbehavingPeerTest, OffersSeveralDescriptors) {
  const int fd = Memfd(SegmentBytes(kSlots), true);
  Say(Offer(), {fd, fd});
  ExpectRefused("an offer with 2 descriptors, where an offer with 1 was");
}

TEST_F(MisbehavingPeerTest, OffersFarTooManyDescriptors) {
  const int fd = Memfd(SegmentBytes(kSlots), true);
  Say(Offer(), {fd, fd, fd, fd});
  ExpectRefused("it sent more descriptors than the 2");
}

TEST_F(MisbehavingPeerTest, DeclinesWithADescriptor) {
  Say(ShareMessage(), {Memfd(100, true)});
  ExpectRefused("an offer with 1 descriptors, where an offer with 0 was");
}

TEST_F(MisbehavingPeerTest, AnswersBeforeAnOffer) {
  ShareMessage answer;
  answer.kind = ShareMessage::Kind::kAnswer;
  Say(answer, {});
  ExpectRefused("an answer with 0 descriptors, where an offer");
}

TEST_F(MisbehavingPeerTest, OffersTwice) {
  const int fd = Memfd(SegmentBytes(kSlots), true);
  Say(Offer(), {fd});
  Say(Offer(), {fd});
  ExpectRefused("an offer with 1 descriptors, where an answer");
}

TEST_F(MisbehavingPeerTest, SaysNothing) {
  const absl::Status status = Fate();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 0 waited in vain"));
}

TEST_F(MisbehavingPeerTest, SaysNothingAfterItsOffer) {
  Say(Offer(), {Memfd(SegmentBytes(kSlots), true)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Fate()));
}

TEST_F(MisbehavingPeerTest, IsGone) {
  ends_.second.Reset();
  const absl::Status status = Fate();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("it closed its connection"));
}

TEST_F(MisbehavingPeerTest, IsWaitedForUntilCancelled) {
  CancelToken cancel;
  std::thread canceller([&cancel] { cancel.Cancel("generation over"); });
  ShareMemoryConfig config = ConfigOf(0);
  config.cancel = &cancel;
  const absl::Status status =
      MakeChannels(config, StreamTo(1, std::move(ends_.first))).status();
  canceller.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
}

TEST_F(MisbehavingPeerTest, IsNotToBlameForOurLackOfDescriptors) {
  Say(Offer(), {Memfd(SegmentBytes(kSlots), true)});
  ShareMessage answer;
  answer.kind = ShareMessage::Kind::kAnswer;
  answer.reason = "you share none";
  Say(answer, {});
  Fallbacks fallbacks;
  const ShareMemoryConfig config = ConfigOf(0, &fallbacks);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<PeerStream> streams = StreamTo(1, std::move(ends_.first));
  const UniqueFd next(fcntl(ends_.second.get(), F_DUPFD_CLOEXEC, 0));
  const rlimit none = {static_cast<rlim_t>(next.get()), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Channels channels = MakeChannels(config, std::move(streams));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_EQ(channels->at(0)->transport(), Transport::kUnix);
  ASSERT_EQ(fallbacks.lines.size(), 1u);
  EXPECT_THAT(fallbacks.lines[0], HasSubstr("rank 0 shares no memory"));
}

TEST(ShareMemoryTest, OneMisbehavingPeerEndsTheCallForAll) {
  const int64_t before = OpenFds();
  {
    Ends good = UnixSockets();
    Ends bad = UnixSockets();
    std::vector<PeerStream> streams = StreamTo(1, std::move(good.first));
    streams.push_back(std::move(StreamTo(2, std::move(bad.first))[0]));
    const std::string garbage(kShareMessageBytes, 'x');
    ASSERT_GT(send(bad.second.get(), garbage.data(), garbage.size(), 0), 0);
    const absl::Status status =
        MakeChannels(ConfigOf(0), std::move(streams)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(BlamedPeer(status), 2);
  }
  EXPECT_EQ(OpenFds(), before);
}

}  // namespace
}  // namespace ringmaster
