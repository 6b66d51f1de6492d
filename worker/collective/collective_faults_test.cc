// Faults: a broken link, a foreign frame or a dead peer ends a collective with
// a Status that names it, never a hang and never a wrong sum.
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/frame.h"
#include "common/transport/handshake.h"
#include "common/transport/socket_link.h"
#include "common/transport/stream_channel.h"
#include "common/transport/testing/faulty_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"
#include "worker/collective/host_communicator.h"
#include "worker/collective/testing/world_of_threads.h"

namespace ringmaster {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 200'000;  // several segments a chunk

MonotonicTime Within(absl::Duration time) { return Clock::Real().Now() + time; }

// A ring of `world_size` ranks, in which what rank 0 sends to rank 1 has
// `fault`.
std::unique_ptr<WorldOfThreads> FaultyWorld(
    int world_size, const LinkFault& fault,
    FrameIntegrity integrity = FrameIntegrity::kNone) {
  WorldOfThreads::Options options;
  options.integrity = integrity;
  options.world_size = world_size;
  options.algorithm = Algorithm::kRing;
  options.decorate = [fault](
                         int rank, int peer,
                         std::unique_ptr<Link> link) -> std::unique_ptr<Link> {
    if (rank != 0 || peer != 1) return link;
    return std::make_unique<FaultyLink>(std::move(link), fault, Clock::Real());
  };
  return *WorldOfThreads::Create(options);
}

std::vector<absl::Status> AllReduceOnAll(
    WorldOfThreads& world, absl::Duration limit,
    std::vector<std::vector<float>>* buffers = nullptr) {
  std::vector<std::vector<float>> own(world.world_size(),
                                      std::vector<float>(kCount, 1.0f));
  auto statuses = world.RunAll([&](Communicator& communicator) {
    return communicator.Run(AllReduceSum(BufferView::Of(
                                std::span<float>(own[communicator.rank()]))),
                            Within(limit));
  });
  if (buffers != nullptr) *buffers = own;
  return statuses;
}

TEST(CollectiveFaultsTest, ADelayedFrameIsOnlySlow) {
  LinkFault fault;
  fault.kind = LinkFault::Kind::kDelay;
  fault.at_frame = 2;
  const auto world = FaultyWorld(3, fault);
  std::vector<std::vector<float>> buffers;
  for (const absl::Status& status :
       AllReduceOnAll(*world, absl::Seconds(30), &buffers)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const auto& buffer : buffers)
    EXPECT_EQ(buffer, std::vector<float>(kCount, 3.0f));
}

TEST(CollectiveFaultsTest, TheFrameAfterADroppedOneIsRefused) {
  for (const int64_t frame : {1, 2, 4}) {
    LinkFault fault;
    fault.kind = LinkFault::Kind::kDrop;
    fault.at_frame = frame;
    const auto world = FaultyWorld(3, fault);
    const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
    for (const absl::Status& status : statuses)
      EXPECT_FALSE(status.ok()) << frame;
    EXPECT_TRUE(absl::IsFailedPrecondition(statuses[1])) << statuses[1];
    EXPECT_THAT(statuses[1].message(),
                HasSubstr("rank 1 refused a frame of rank 0"));
    EXPECT_EQ(world->communicator(1).counters().refused_frames, 1);
    EXPECT_EQ(world->communicator(1).progress().blamed_rank, 0);
  }
}

TEST(CollectiveFaultsTest, ADroppedLastFrameRunsIntoTheDeadline) {
  LinkFault fault;
  fault.kind = LinkFault::Kind::kDrop;
  fault.at_frame = 2;  // its own elements, then the sum
  const auto world = FaultyWorld(2, fault);
  std::vector<std::vector<float>> buffers(2, std::vector<float>(10));
  const auto statuses = world->RunAll([&](Communicator& communicator) {
    return communicator.Run(
        AllReduceSum(
            BufferView::Of(std::span<float>(buffers[communicator.rank()]))),
        Within(communicator.rank() == 1 ? absl::Milliseconds(100)
                                        : absl::Seconds(30)));
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(statuses[1])) << statuses[1];
  EXPECT_THAT(statuses[1].message(), HasSubstr("rank 1 waited for rank 0"));
}

TEST(CollectiveFaultsTest, AClosedLinkNamesThePeerOnEveryRank) {
  for (const LinkFault::Kind kind :
       {LinkFault::Kind::kClose, LinkFault::Kind::kCloseInPayload}) {
    for (const int64_t frame : {1, 3}) {
      LinkFault fault;
      fault.kind = kind;
      fault.at_frame = frame;
      const auto world = FaultyWorld(4, fault);
      const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
      for (const absl::Status& status : statuses) {
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_THAT(status.message(), HasSubstr("closed its connection"));
        EXPECT_EQ(LinkFailureOf(status), LinkFailure::kClosed);
      }
      EXPECT_THAT(statuses[1].message(), HasSubstr("rank 1 in all_reduce"));
      EXPECT_THAT(world->communicator(1).progress().blamed_rank, AnyOf(0, 2));
    }
  }
}

TEST(CollectiveFaultsTest, ACorruptHeaderIsRefusedWhicheverByteItHits) {
  for (const size_t byte :
       {0u, 4u, 6u, 7u, 8u, 16u, 24u, 32u, 40u, 48u, 52u, 56u, 60u, 63u}) {
    LinkFault fault;
    fault.kind = LinkFault::Kind::kCorrupt;
    fault.at_frame = 2;
    fault.corrupt_at = byte;
    const auto world = FaultyWorld(2, fault);
    const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
    EXPECT_TRUE(absl::IsFailedPrecondition(statuses[1]))
        << byte << ": " << statuses[1];
    EXPECT_THAT(statuses[1].message(), HasSubstr("rank 1 refused"));
    EXPECT_THAT(statuses[1].message(), HasSubstr("rank 0"));
    EXPECT_FALSE(statuses[0].ok());
    EXPECT_EQ(world->communicator(1).counters().refused_frames, 1);
  }
}

TEST(CollectiveFaultsTest, AKilledRankUnblocksAllOthers) {
  for (const int world_size : {2, 3, 8}) {
    WorldOfThreads::Options options;
    options.world_size = world_size;
    options.transport = Transport::kTcp;
    options.algorithm = Algorithm::kRing;
    const auto world = *WorldOfThreads::Create(options);
    world->Kill(1);
    const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
    for (int rank = 0; rank < world_size; ++rank) {
      if (rank == 1) continue;
      EXPECT_TRUE(absl::IsUnavailable(statuses[rank])) << statuses[rank];
    }
    // Rank 0 sees that its next rank is gone, or first its previous one, which
    // gave up for the same reason.
    EXPECT_THAT(statuses[0].message(),
                AnyOf(HasSubstr("rank 1 at"),
                      HasSubstr(absl::StrCat("rank ", world_size - 1, " at"))));
  }
}

// Nothing arrives over it and nothing leaves, and the kernel finds out.
class SilentLink final : public Link {
 public:
  explicit SilentLink(std::unique_ptr<Link> link) : link_(std::move(link)) {}

  absl::StatusOr<size_t> TryWrite(std::span<const iovec>) override {
    return size_t{0};
  }
  absl::StatusOr<size_t> TryRead(std::span<const iovec>) override {
    return size_t{0};
  }
  absl::Status CheckPeer(MonotonicTime) override {
    return absl::UnavailableError(
        absl::StrCat(peer(), " has acknowledged nothing"));
  }
  int fd() const override { return link_->fd(); }
  void Close() override { link_->Close(); }
  const std::string& peer() const override { return link_->peer(); }

 private:
  std::unique_ptr<Link> link_;
};

// A ring of four ranks in which rank 1 hears and says nothing on its link with
// `silent_peer`.
std::unique_ptr<WorldOfThreads> SilentWorld(int silent_peer) {
  WorldOfThreads::Options options;
  options.world_size = 4;
  options.algorithm = Algorithm::kRing;
  options.decorate = [silent_peer](
                         int rank, int peer,
                         std::unique_ptr<Link> link) -> std::unique_ptr<Link> {
    if (rank != 1 || peer != silent_peer) return link;
    return std::make_unique<SilentLink>(std::move(link));
  };
  return *WorldOfThreads::Create(options);
}

TEST(CollectiveFaultsTest, ASilentLinkNamesTheNextRankAtItsSender) {
  const auto world = SilentWorld(/*silent_peer=*/2);
  const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(statuses[1].message(),
              HasSubstr("rank 2 has acknowledged nothing"));
  EXPECT_EQ(world->communicator(1).progress().blamed_rank, 2);
}

TEST(CollectiveFaultsTest, ASilentLinkNamesThePreviousRankAtItsReceiver) {
  const auto world = SilentWorld(/*silent_peer=*/0);
  const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(statuses[1].message(),
              HasSubstr("rank 0 has acknowledged nothing"));
  EXPECT_EQ(world->communicator(1).progress().blamed_rank, 0);
}

TEST(CollectiveFaultsTest, AbortInMidCollectiveEndsItOnAllRanks) {
  WorldOfThreads::Options options;
  options.world_size = 4;
  const auto world = *WorldOfThreads::Create(options);
  std::thread aborter([&] {
    while (world->communicator(2).progress().completed < 3)
      std::this_thread::yield();
    for (int rank = 0; rank < 4; ++rank)
      world->communicator(rank).Abort("halt");
  });
  const auto statuses =
      world->RunAll([&](Communicator& communicator) -> absl::Status {
        std::vector<float> values(kCount);
        while (true) {
          const absl::Status status = communicator.Run(
              AllReduceSum(BufferView::Of(std::span<float>(values))),
              Within(absl::Seconds(30)));
          if (!status.ok()) return status;
        }
      });
  aborter.join();
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsAborted(status) || absl::IsUnavailable(status))
        << status;
  }
}

TEST(CollectiveFaultsTest, AStaleGenerationIsRefusedOnBothSides) {
  WorldOfThreads::Options options;
  options.generations = {7, 6};
  const auto world = *WorldOfThreads::Create(options);
  const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
  int refusals = 0;
  for (const absl::Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    if (absl::IsFailedPrecondition(status)) {
      ++refusals;
      EXPECT_THAT(status.message(), HasSubstr("generation is"));
    }
  }
  EXPECT_GE(refusals, 1);
}

// Rank 0 and 1 ask for different collectives; at least one refuses, and none
// hangs.
void ExpectMismatch(const CollectiveRequest& zero, const CollectiveRequest& one,
                    const std::string& field) {
  const auto world = *WorldOfThreads::Create({});
  const auto statuses = world->RunAll([&](Communicator& communicator) {
    return communicator.Run(communicator.rank() == 0 ? zero : one,
                            Within(absl::Seconds(30)));
  });
  std::string messages;
  for (const absl::Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    absl::StrAppend(&messages, status.ToString(), "\n");
  }
  EXPECT_THAT(messages, HasSubstr(absl::StrCat(field, " is")));
}

TEST(CollectiveFaultsTest, DifferentPlansAreRefusedByName) {
  std::vector<float> floats(100);
  std::vector<float> other_floats(100);
  std::vector<int64_t> integers(100);
  const auto view = BufferView::Of(std::span<float>(floats));
  const auto other_view = BufferView::Of(std::span<float>(other_floats));
  BufferView shorter = other_view;
  shorter.count = 99;
  ExpectMismatch(AllReduceSum(view), AllReduceSum(shorter), "count");
  ExpectMismatch(AllReduceSum(view),
                 AllReduceSum(BufferView::Of(std::span<int64_t>(integers))),
                 "dtype");
  ExpectMismatch(AllReduceSum(view), ReduceScatterSum(other_view), "op");
  ExpectMismatch(Barrier(), AllGather(other_view), "op");
}

// Rank 0 of job-1's generation 1 with a peer that the test plays.
std::unique_ptr<Communicator> RankZeroOfTwo(std::unique_ptr<Link> link) {
  HostCommunicator::Options options;
  options.job_id = "job-1";
  options.generation = 1;
  options.topology = Topology::OneHost(2);
  options.clock = &Clock::Real();
  std::vector<std::unique_ptr<Channel>> channels(2);
  channels[1] =
      std::make_unique<StreamChannel>(0, std::move(link), Transport::kLoopback);
  return std::make_unique<HostCommunicator>(options, std::move(channels));
}

TEST(CollectiveFaultsTest, ASkippedCollectiveIsASequenceMismatch) {
  // Rank 1 runs its barrier twice where rank 0 inserts nothing: the third of
  // one meets the second of the other.
  auto [link, peer] = *LoopbackPair("rank 1", "rank 0");
  const auto communicator = RankZeroOfTwo(std::move(link));
  FrameHeader header;
  header.job = JobHash("job-1");
  header.generation = 1;
  header.sequence = 2;
  header.source_rank = 1;
  header.op = static_cast<uint8_t>(CollectiveOp::kBarrier);
  header.dtype = static_cast<uint8_t>(DType::kFloat32);
  header.wire = header.dtype;
  FrameHeaderBytes bytes = EncodeFrameHeader(header);
  const iovec part = {bytes.data(), bytes.size()};
  ASSERT_EQ(*peer->TryWrite(std::span(&part, 1)), bytes.size());
  const absl::Status status =
      communicator->Run(Barrier(), Within(absl::Seconds(30)));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("sequence is 2, expected 1"));
}

TEST(CollectiveFaultsTest, GarbageAndOversizedFramesNeverReachABuffer) {
  FrameHeader oversized;
  oversized.payload_bytes = kMaxFramePayloadBytes + 1;
  const FrameHeaderBytes claim = EncodeFrameHeader(oversized);
  for (const std::string& bytes :
       {std::string(4096, 'x'),
        std::string(reinterpret_cast<const char*>(claim.data()),
                    claim.size())}) {
    auto [link, peer] = *LoopbackPair("rank 1", "rank 0");
    const auto communicator = RankZeroOfTwo(std::move(link));
    const iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    ASSERT_EQ(*peer->TryWrite(std::span(&part, 1)), bytes.size());
    std::vector<float> values(1000, 5.0f);
    const absl::Status status = communicator->Run(
        AllReduceSum(BufferView::Of(std::span<float>(values))),
        Within(absl::Seconds(30)));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("rank 0 refused bytes of rank 1"));
    EXPECT_EQ(values, std::vector<float>(1000, 5.0f));
    EXPECT_EQ(communicator->counters().refused_frames, 1);
  }
}

TEST(CollectiveFaultsTest, AFailPointFailsTheCollectiveOnAllRanks) {
  for (const char* const point :
       {"collective.begin", "collective.send", "collective.receive",
        "collective.reduce_scatter", "collective.all_gather"}) {
    const auto world = *WorldOfThreads::Create({});
    FailPoint::Arm(point, FailPoint::Action::kError);
    const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
    EXPECT_GT(FailPoint::PassCount(point), 0) << point;
    FailPoint::DisarmAll();
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(absl::IsUnavailable(status)) << point << ": " << status;
  }
}

TEST(CollectiveFaultsTest, ADamagedFrameBreaksItsLinkAndNamesBothRanks) {
  // In the header, in the checksums, and in the payload: of a frame that is
  // added, and of one that is copied.
  for (const auto integrity :
       {FrameIntegrity::kCrc32c, FrameIntegrity::kAes256Gcm}) {
    for (const size_t byte : {0u, 24u, 59u, 60u, 64u, 71u, 72u, 80u, 4000u}) {
      for (const int64_t frame : {1, 2, 4}) {
        LinkFault fault;
        fault.kind = LinkFault::Kind::kCorrupt;
        fault.at_frame = frame;
        fault.corrupt_at = byte;
        const auto world = FaultyWorld(3, fault, integrity);
        const auto statuses = AllReduceOnAll(*world, absl::Seconds(30));
        for (const absl::Status& status : statuses)
          EXPECT_TRUE(absl::IsUnavailable(status)) << byte << ": " << status;
        EXPECT_THAT(statuses[1].message(),
                    HasSubstr("damaged frame of rank 0 to rank 1"));
        EXPECT_EQ(world->communicator(1).progress().blamed_rank, 0);
      }
    }
  }
}

}  // namespace
}  // namespace ringmaster
