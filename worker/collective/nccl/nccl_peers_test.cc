#include "worker/collective/nccl/nccl_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/collective/testing/world_of_threads.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

std::vector<NcclRankFacts> Ranks(int count) {
  std::vector<NcclRankFacts> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back({.version = 22809,
                     .gpu_uuid = absl::StrCat("GPU-", rank),
                     .host_name = "a"});
  }
  return ranks;
}

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(20); }

TEST(NcclPeersTest, AcceptsRanksThatFit) {
  EXPECT_TRUE(CheckNcclRanks(Ranks(1)).ok());
  EXPECT_TRUE(CheckNcclRanks(Ranks(4)).ok());
}

TEST(NcclPeersTest, NamesTwoRanksOnOneGpu) {
  std::vector<NcclRankFacts> ranks = Ranks(4);
  ranks[3].gpu_uuid = ranks[1].gpu_uuid;
  const absl::Status status = CheckNcclRanks(ranks);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 (a) and rank 3 (a) both use GPU-1: give each "
                        "worker a GPU of its own"));

  for (NcclRankFacts& rank : ranks) rank.settings.share_gpu = true;
  EXPECT_TRUE(CheckNcclRanks(ranks).ok());
}

TEST(NcclPeersTest, NamesRanksThatDiffer) {
  std::vector<NcclRankFacts> ranks = Ranks(3);
  ranks[2].version = 22707;
  ranks[2].host_name = "b";
  EXPECT_THAT(
      std::string(CheckNcclRanks(ranks).message()),
      HasSubstr("rank 0 (a) has NCCL 2.28.9 and rank 2 (b) has 2.27.7"));

  ranks = Ranks(3);
  ranks[1].settings.ring = true;
  EXPECT_EQ(CheckNcclRanks(ranks).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(CheckNcclRanks(ranks).message()),
              HasSubstr("rank 0 (a) has the NCCL settings ring=0 share_gpu=0 "
                        "and rank 1 (a) has ring=1 share_gpu=0"));
}

TEST(NcclPeersTest, NamesARankThatCannotUseNccl) {
  std::vector<NcclRankFacts> ranks = Ranks(3);
  ranks[1] = {.host_name = "b", .error = "cannot load libnccl.so.2"};
  const absl::Status status = CheckNcclRanks(ranks);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "rank 1 (b) cannot use NCCL: cannot load libnccl.so.2");
}

TEST(NcclPeersTest, AllRanksGetAllFacts) {
  auto world = WorldOfThreads::Create({.world_size = 3});
  ASSERT_TRUE(world.ok()) << world.status();
  std::vector<NcclRankFacts> facts = Ranks(3);
  facts[1].settings = {.share_gpu = true, .ring = true};
  facts[2].error = std::string(1000, 'x');
  std::vector<NcclRankFacts> expected = facts;
  expected[2].error.resize(223);
  const auto statuses = (*world)->RunAll([&](Communicator& host) {
    const auto all = ExchangeNcclFacts(facts[static_cast<size_t>(host.rank())],
                                       host, Soon());
    if (!all.ok()) return all.status();
    EXPECT_EQ(*all, expected) << "on rank " << host.rank();
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclPeersTest, AllRanksGetTheIdOfRank0) {
  auto world = WorldOfThreads::Create({.world_size = 3});
  ASSERT_TRUE(world.ok()) << world.status();
  NcclId made;
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(i * 3);
  const auto statuses = (*world)->RunAll([&](Communicator& host) {
    const auto id = AgreeOnNcclId(
        [&]() -> absl::StatusOr<NcclId> {
          EXPECT_EQ(host.rank(), 0);
          return made;
        },
        host, Soon());
    if (!id.ok()) return id.status();
    EXPECT_EQ(*id, made) << "on rank " << host.rank();
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclPeersTest, AllRanksLearnWhyThereIsNoId) {
  auto world = WorldOfThreads::Create({.world_size = 2});
  ASSERT_TRUE(world.ok()) << world.status();
  const auto statuses = (*world)->RunAll([&](Communicator& host) {
    return AgreeOnNcclId(
               []() -> absl::StatusOr<NcclId> {
                 return absl::UnavailableError("no network interface");
               },
               host, Soon())
        .status();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "rank 0 cannot make an NCCL id: no network interface");
  }
}

}  // namespace
}  // namespace ringmaster
