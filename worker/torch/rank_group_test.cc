#include "worker/torch/rank_group.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/torch/rendezvous.h"
#include "worker/torch/testing/memory_store.h"

namespace ringmaster {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Body = std::function<void(RankGroup& group)>;

// Runs `body` on every rank of a group; `hosts` by rank.
void OnRanks(const std::vector<std::string>& hosts, const Body& body) {
  MemoryStore store;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      RankGroupOptions options;
      options.rank = static_cast<int>(rank);
      options.world_size = static_cast<int>(hosts.size());
      options.connect_timeout = absl::Seconds(30);
      options.host_key = hosts[rank];
      options.clock = &Clock::Real();
      auto group = RankGroup::Connect(store, options);
      ASSERT_TRUE(group.ok()) << group.status();
      body(**group);
      // A rank that leaves would end the others' operations.
      EXPECT_TRUE((*group)->RunCollective(Barrier(), absl::Seconds(30)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(RankGroupTest, RanksOfOneHostAndOfSeveralReduce) {
  const std::vector<std::vector<std::string>> worlds = {
      {"a"}, {"a", "a"}, {"a", "b", "a"}, {"a", "a", "b", "b"}};
  for (const auto& hosts : worlds) {
    OnRanks(hosts, [&](RankGroup& group) {
      std::vector<float> values = {1, static_cast<float>(group.rank())};
      const auto n = static_cast<float>(hosts.size());
      EXPECT_TRUE(
          group
              .RunCollective(
                  AllReduceSum(BufferView::Of(std::span<float>(values))), kLong)
              .ok());
      EXPECT_EQ(values, (std::vector<float>{n, n * (n - 1) / 2}));
    });
  }
}

TEST(RankGroupTest, ANewcomerRefusesWhatItCannotJoin) {
  const auto refusal = [](const std::string& group, bool is_local_only) {
    RankGroupOptions options;
    options.rank = 1;
    options.world_size = 2;
    options.host_key = "a";
    options.is_local_only = is_local_only;
    options.clock = &Clock::Real();
    return RankGroup::Join(group, options).status();
  };
  EXPECT_EQ(refusal("id;secret;a,x:1;nothing", false),
            absl::InvalidArgumentError("RINGMASTER_GROUP lists no members"));
  EXPECT_EQ(refusal("id", false), absl::InvalidArgumentError(
                                      "RINGMASTER_GROUP is of 0 ranks, not 2"));
  EXPECT_THAT(std::string(refusal("id;secret;a,x:1;b,x:2", true).message()),
              HasSubstr("rank 1 does not know its address there"));
  EXPECT_EQ(refusal("id;secret;a,x:1;a,x:2", true),
            absl::FailedPreconditionError("its worker tells of no views"));
}

TEST(RankGroupTest, MovesBytes) {
  OnRanks({"a", "a", "b"}, [](RankGroup& group) {
    std::vector<std::byte> bytes(15, std::byte{0});
    for (size_t i = 0; i < 5; ++i)
      bytes[static_cast<size_t>(group.rank()) * 5 + i] =
          static_cast<std::byte>(group.rank() + 1);
    EXPECT_TRUE(
        group.RunCollective(AllGather({bytes.data(), 15, DType::kUint8}), kLong)
            .ok());
    for (size_t i = 0; i < 15; ++i)
      EXPECT_EQ(bytes[i], static_cast<std::byte>(i / 5 + 1));
  });
}

TEST(RankGroupTest, ExchangesPartsOfEverySize) {
  OnRanks({"a", "a", "b"}, [](RankGroup& group) {
    // Rank r has for rank s r + 1 times 1000 bytes of 10 r + s; none for rank 2.
    const int rank = group.rank();
    std::vector<std::vector<std::byte>> out(3);
    std::vector<std::vector<std::byte>> in(3);
    RankGroup::Parts to(3);
    RankGroup::Parts from(3);
    for (int peer = 0; peer < 3; ++peer) {
      const auto p = static_cast<size_t>(peer);
      out[p].assign(static_cast<size_t>(rank + 1) * 1000,
                    static_cast<std::byte>(10 * rank + peer));
      in[p].resize(static_cast<size_t>(peer + 1) * 1000);
      if (peer != 2) to[p] = std::span<std::byte>(out[p]);
      if (rank != 2) from[p] = std::span<std::byte>(in[p]);
    }
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_TRUE(group.Exchange(to, from, kLong).ok());
      for (int peer = 0; rank != 2 && peer < 3; ++peer) {
        EXPECT_EQ(in[static_cast<size_t>(peer)].back(),
                  static_cast<std::byte>(10 * peer + rank));
      }
    }
  });
}

TEST(RankGroupTest, AMonitoredBarrierNamesTheMissing) {
  OnRanks({"a", "a", "a", "a"}, [](RankGroup& group) {
    EXPECT_TRUE(group.MonitoredBarrier(kLong, /*names_all=*/true).ok());
    // Ranks 2 and 3 do not come.
    if (group.rank() >= 2) return;
    const absl::Status status =
        group.MonitoredBarrier(absl::Milliseconds(100), /*names_all=*/true);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(
        status.message(),
        HasSubstr(group.rank() == 0 ? "rank 2, 3 did not come within 100ms"
                                    : "rank 0 misses other ranks"));
  });
}

TEST(RankGroupTest, ARankThatDoesNotComeIsNamed) {
  MemoryStore store;
  const GroupMember self = {"host", "1.2.3.4:5", "1.2.3.4:6"};
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      MeetMembers(store, 2, 4, self, absl::Milliseconds(5), {}).status()));
  std::vector<std::string> lines;
  const WaitNote note = {
      .after = absl::Milliseconds(5),
      .show = [&](const std::string& line) { lines.push_back(line); }};
  const absl::Status status =
      MeetMembers(store, 0, 4, self, absl::Seconds(1), note).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("of the 4 ranks of the process group "
                                          "2 did not come within 1s: rank 1, "
                                          "3"));
  EXPECT_THAT(lines, ElementsAre("rank 0 has waited to make a process group "
                                 "with rank 1 for 0 s"));
}

TEST(RankGroupTest, AnotherBackEndIsNoticed) {
  MemoryStore store;
  ASSERT_TRUE(
      store.Set("ringmaster/member/1", "something else entirely, x").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      MeetMembers(store, 0, 2, {"h", "a:1", "a:2"}, kLong, {}).status()));
}

TEST(RankGroupTest, AllLearnThatOneUsesAnotherBackEnd) {
  const GroupMember self = {"h", "a:1", "a:2"};
  for (const int declining : {0, 1}) {
    MemoryStore store;
    const std::string sentence = absl::StrCat(
        "rank ", declining, " uses another back end: it has a GPU");
    ASSERT_TRUE(store
                    .Set(absl::StrCat("ringmaster/member/", declining),
                         absl::StrCat(kDeclined, "it has a GPU"))
                    .ok());
    if (declining == 0) {
      ASSERT_TRUE(
          store.Set("ringmaster/members", absl::StrCat(kDeclined, sentence))
              .ok());
    }
    for (const int rank : {0, 1, 2}) {
      if (rank == declining) continue;
      const absl::Status status =
          MeetMembers(store, rank, 3, self, kLong, {}).status();
      EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
      EXPECT_EQ(status.message(), sentence);
    }
  }
}

TEST(RankGroupTest, ListensOnPortsOfItsRange) {
  const absl::StatusOr<Listener> taken = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(taken.ok());
  MemoryStore store;
  RankGroupOptions options;
  options.host_key = "a";
  options.clock = &Clock::Real();
  options.port_range = PortRange{taken->port(), taken->port()};
  const absl::Status status = RankGroup::Connect(store, options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  options.port_range = PortRange{20000, 29999};
  ASSERT_TRUE(RankGroup::Connect(store, options).ok());
  const auto members = store.Get("ringmaster/members", kLong);
  ASSERT_TRUE(members.ok());
  EXPECT_THAT(*members, ContainsRegex("a 127.0.0.1:2[0-9]{4} 127.0.0.1:2[0-9]"
                                      "{4}"));
}

TEST(RankGroupTest, SeveralHostsNeedAddresses) {
  MemoryStore store;
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      RankGroupOptions options;
      options.rank = rank;
      options.world_size = 2;
      options.connect_timeout = kLong;
      options.is_local_only = true;
      options.host_key = absl::StrCat("host-", rank);
      options.clock = &Clock::Real();
      const absl::Status status = RankGroup::Connect(store, options).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr("GLOO_SOCKET_IFNAME"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AddressTowardsTest, IsThatOfTheWayThere) {
  EXPECT_EQ(*AddressTowards("127.0.0.1", ""), "127.0.0.1");
  EXPECT_EQ(*AddressTowards("::1", ""), "[::1]");
  EXPECT_EQ(*AddressTowards("10.9.8.7", "lo"), "127.0.0.1");
  EXPECT_FALSE(AddressTowards("127.0.0.1", "no-such-interface").ok());
  EXPECT_FALSE(AddressTowards("no.such.host.invalid", "").ok());
}

}  // namespace
}  // namespace ringmaster
