#include "worker/collective/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/plan/mesh.h"
#include "common/plan/partition.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/testing/schedule_play.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

constexpr int kWorldSizes[] = {2, 3, 4, 5, 7, 8, 16, 17};
constexpr CollectiveOp kOps[] = {
    CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
    CollectiveOp::kAllGather, CollectiveOp::kBroadcast, CollectiveOp::kBarrier};

// One host; two halves; a small and a large host; three hosts in turn, numbered
// in no order; each rank on its own host.
std::vector<Topology> TopologiesOf(int n) {
  std::vector<int> halves;
  std::vector<int> unequal;
  std::vector<int> in_turn;
  std::vector<int> alone;
  for (int rank = 0; rank < n; ++rank) {
    halves.push_back(rank < (n + 1) / 2 ? 4 : 3);
    unequal.push_back(rank < 1 + n / 4 ? 0 : 1);
    in_turn.push_back(std::vector<int>{7, 2, 9}[rank % 3]);
    alone.push_back(n - rank);
  }
  return {Topology::OneHost(n), Topology(halves), Topology(unequal),
          Topology(in_turn), Topology(alone)};
}

std::string Describe(const ScheduleRequest& request, const Topology& topology,
                     const PlayOptions& options) {
  std::string hosts;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    absl::StrAppend(&hosts, " ", topology.HostOf(rank));
  }
  return absl::StrCat(
      CollectiveOpName(request.op), " by ", AlgorithmName(request.algorithm),
      ", count ", request.count, ", segment ", request.segment_count, ", root ",
      request.root, ", mirrors ", request.mirrors, ", finish ",
      request.has_finish, ", rounded ", options.is_wire_rounded, ", seed ",
      options.seed, ", frames ", options.channel_frames, ", hosts", hosts);
}

// The sum in the order of `ranks`, from `first` on and round.
int SumOf(const std::vector<int>& terms_of, size_t first, Terms* terms) {
  int sum = terms_of[first];
  for (size_t i = 1; i < terms_of.size(); ++i) {
    sum = terms->Sum(sum, terms_of[(first + i) % terms_of.size()]);
  }
  return sum;
}

std::vector<int> Leaves(const std::vector<int>& ranks, Terms* terms) {
  std::vector<int> leaves;
  for (const int rank : ranks) leaves.push_back(terms->Of(rank));
  return leaves;
}

int ChunkWith(int64_t index, int chunks, int64_t count) {
  int chunk = 0;
  while (ChunkOf(chunk, chunks, count).end() <= index) ++chunk;
  return chunk;
}

// Returns the term of the order in which the element is added up; -1 where the
// test does not prescribe one.
int ExpectedSum(const ScheduleRequest& request, const Topology& topology,
                int64_t index, Terms* terms) {
  const int n = topology.world_size();
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  const bool is_all_reduce = request.op == CollectiveOp::kAllReduce;
  const bool is_direct = request.algorithm != Algorithm::kRing && n <= 16;
  if (n == 2 || (!is_all_reduce && is_direct)) {
    return SumOf(Leaves(all, terms), 0, terms);
  }
  if (!is_all_reduce || request.algorithm == Algorithm::kRing) {
    const int chunk = ChunkWith(index, n, request.count);
    return SumOf(Leaves(all, terms), static_cast<size_t>((chunk + 1) % n),
                 terms);
  }
  if (request.algorithm == Algorithm::kHalvingDoubling) return -1;
  if (request.algorithm != Algorithm::kHierarchical) {
    return SumOf(Leaves(all, terms), 0, terms);
  }
  std::vector<int> of_hosts;
  size_t most = 0;
  const int hosts = topology.host_count();
  for (int host = 0; host < hosts; ++host) {
    const std::vector<int>& ranks = topology.RanksOf(host);
    of_hosts.push_back(SumOf(Leaves(ranks, terms), 0, terms));
    most = std::max(most, ranks.size());
  }
  const int chunk = ChunkWith(index, static_cast<int>(most), request.count);
  const ElemRange range = ChunkOf(chunk, static_cast<int>(most), request.count);
  const int part = ChunkWith(index - range.begin, hosts, range.count);
  return SumOf(of_hosts, static_cast<size_t>((part + 1) % hosts), terms);
}

// Returns true if the element of `rank` is a result of the collective.
bool IsResult(const ScheduleRequest& request, const Topology& topology,
              int rank, int64_t index) {
  if (request.op != CollectiveOp::kReduceScatter) return true;
  const int n = topology.world_size();
  const int owner = ChunkWith(index, n, request.count);
  const std::vector<int> mirrors = MirrorDistances(request.mirrors, topology);
  return rank == owner ||
         std::any_of(mirrors.begin(), mirrors.end(), [&](int distance) {
           return (owner + distance) % n == rank;
         });
}

std::string CheckElement(const ScheduleRequest& request,
                         const Topology& topology, const PlayOptions& options,
                         int64_t index, const Played& played, Terms* terms) {
  const int n = topology.world_size();
  int first = -1;
  for (int rank = 0; rank < n; ++rank) {
    if (!IsResult(request, topology, rank, index)) continue;
    const int term = played.buffers[rank][index].term;
    if (first < 0) first = term;
    if (term != first) return absl::StrCat("rank ", rank, " differs");
  }
  std::map<int, int> contributions;
  int expected = -1;
  if (request.op == CollectiveOp::kAllGather) {
    contributions[ChunkWith(index, n, request.count)] = 1;
  } else if (request.op == CollectiveOp::kBroadcast) {
    contributions[request.root] = 1;
  } else {
    for (int rank = 0; rank < n; ++rank) contributions[rank] = 1;
    if (!options.is_wire_rounded) {
      expected = ExpectedSum(request, topology, index, terms);
    }
  }
  if (terms->Ranks(first) != contributions) return "contributions are wrong";
  const bool is_finished = terms->KindOf(first) == Terms::Kind::kFinished;
  if (is_finished != request.has_finish) return "finish is wrong";
  if (expected < 0) return "";
  if (request.has_finish) expected = terms->Finished(expected);
  return terms->Canonical(first) == terms->Canonical(expected)
             ? ""
             : "the order of additions is wrong";
}

std::string Check(const ScheduleRequest& request, const Topology& topology,
                  const PlayOptions& options) {
  Terms terms;
  const Played played = PlaySchedules(request, topology, options, &terms);
  if (!played.problem.empty()) return played.problem;
  for (int64_t i = 0; i < request.count; ++i) {
    const std::string problem =
        CheckElement(request, topology, options, i, played, &terms);
    if (!problem.empty()) return absl::StrCat("element ", i, ": ", problem);
  }
  if (request.op != CollectiveOp::kBarrier) return "";
  for (const std::vector<bool>& known : played.known) {
    if (std::find(known.begin(), known.end(), false) != known.end()) {
      return "a rank leaves before another came";
    }
  }
  return "";
}

struct Case {
  CollectiveOp op;
  Algorithm algorithm;

  friend void PrintTo(const Case& value, std::ostream* out) {
    *out << CollectiveOpName(value.op) << "_" << AlgorithmName(value.algorithm);
  }
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const CollectiveOp op : kOps) {
    for (const Algorithm algorithm : kAlgorithms) {
      cases.push_back({op, algorithm});
    }
  }
  return cases;
}

class ScheduleOfCaseTest : public ::testing::TestWithParam<Case> {
 protected:
  // Both orders of running; in turn with and without finish and rounding, and
  // with both sizes of channels.
  void CheckAll(ScheduleRequest request, const Topology& topology) {
    ++runs_;
    for (uint64_t variant = 0; variant < 2; ++variant) {
      PlayOptions options;
      options.seed = runs_ * 2 + variant;
      options.channel_frames = runs_ % 5 == 0 ? 4 : 1;
      request.has_finish = (runs_ + variant) % 2 == 0;
      // Only finish makes the rank that holds a result keep what it sends.
      options.is_wire_rounded = request.has_finish && runs_ % 3 == 0;
      ASSERT_EQ(Check(request, topology, options), "")
          << Describe(request, topology, options);
    }
  }

 private:
  uint64_t runs_ = 0;
};

TEST_P(ScheduleOfCaseTest, GivesTheRightResultInEveryOrder) {
  ScheduleRequest request;
  request.op = GetParam().op;
  request.algorithm = GetParam().algorithm;
  for (const int n : kWorldSizes) {
    std::vector<int64_t> counts = {0, 1, n - 1, n, 101, 1000};
    if (request.op == CollectiveOp::kBarrier) counts = {0};
    for (const Topology& topology : TopologiesOf(n)) {
      if (!IsUsable(request.algorithm, topology)) continue;
      for (const int64_t count : counts) {
        request.count = count;
        request.root = request.op == CollectiveOp::kBroadcast ? count % n : 0;
        if (request.op == CollectiveOp::kReduceScatter)
          request.mirrors = (request.mirrors + 1) % 3;
        for (const int64_t segment : {std::max<int64_t>(1, count / (4 * n)),
                                      int64_t{40}, int64_t{5000}}) {
          request.segment_count = segment;
          ASSERT_NO_FATAL_FAILURE(CheckAll(request, topology));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleOfCaseTest,
                         ::testing::ValuesIn(AllCases()));

TEST(ScheduleTest, BroadcastsFromEveryRoot) {
  ScheduleRequest request;
  request.op = CollectiveOp::kBroadcast;
  request.count = 20;
  request.segment_count = 3;
  for (const int n : {2, 3, 5, 17}) {
    for (request.root = 0; request.root < n; ++request.root) {
      for (const Algorithm algorithm : kAlgorithms) {
        request.algorithm = algorithm;
        const Topology topology = Topology::OneHost(n);
        if (!IsUsable(algorithm, topology)) continue;
        EXPECT_EQ(Check(request, topology, {}), "")
            << Describe(request, topology, {});
      }
    }
  }
}

TEST(ScheduleTest, WorksBeyondAMesh) {
  std::vector<int> five_hosts;
  for (int rank = 0; rank < 37; ++rank) five_hosts.push_back(rank % 5);
  const Topology topology(five_hosts);
  ScheduleRequest request;
  request.segment_count = 16;
  for (const CollectiveOp op : kOps) {
    request.op = op;
    request.count = op == CollectiveOp::kBarrier ? 0 : 500;
    request.mirrors = op == CollectiveOp::kReduceScatter ? 2 : 0;
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kHalvingDoubling,
          Algorithm::kHierarchical}) {
      request.algorithm = algorithm;
      for (const uint64_t seed : {1, 2}) {
        EXPECT_EQ(Check(request, topology, {.seed = seed}), "")
            << Describe(request, topology, {.seed = seed});
      }
    }
  }
}

// Elements sent, by sender and receiver.
std::vector<std::vector<int64_t>> Sent(Algorithm algorithm, int64_t count,
                                       const Topology& topology) {
  ScheduleRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.algorithm = algorithm;
  request.count = count;
  request.segment_count = 10;
  Terms terms;
  const Played played = PlaySchedules(request, topology, {}, &terms);
  EXPECT_EQ(played.problem, "");
  return played.sent;
}

int64_t SumOfAll(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

TEST(ScheduleTest, EveryRankSendsAsMuchAsTheorySays) {
  for (const int n : kWorldSizes) {
    const Topology topology = Topology::OneHost(n);
    const int64_t count = 48 * n;
    for (const Algorithm algorithm : kAlgorithms) {
      if (!IsUsable(algorithm, topology)) continue;
      const auto sent = Sent(algorithm, count, topology);
      for (int rank = 0; rank < n; ++rank) {
        int64_t expected = 2 * (n - 1) * count / n;
        if (algorithm == Algorithm::kExchange) expected = (n - 1) * count;
        if (algorithm == Algorithm::kGatherBroadcast) {
          expected = rank == 0 ? (n - 1) * count : count;
        }
        if (algorithm == Algorithm::kHalvingDoubling && (n & (n - 1)) != 0) {
          continue;
        }
        EXPECT_EQ(SumOfAll(sent[rank]), expected)
            << AlgorithmName(algorithm) << ", rank " << rank << " of " << n;
      }
    }
  }
}

TEST(ScheduleTest, AFoldedRankSendsTheBufferOnce) {
  const auto sent =
      Sent(Algorithm::kHalvingDoubling, 240, Topology::OneHost(6));
  EXPECT_EQ(SumOfAll(sent[0]), 240);                    // is folded into 1
  EXPECT_EQ(SumOfAll(sent[1]), 240 + 2 * 3 * 240 / 4);  // and gets it back
  EXPECT_EQ(SumOfAll(sent[5]), 2 * 3 * 240 / 4);
}

TEST(ScheduleTest, HierarchicalSendsLittleBetweenHosts) {
  const Topology topology({0, 0, 0, 0, 1, 1, 2, 2, 2, 2});
  const int64_t count = 12 * 20;
  const auto sent = Sent(Algorithm::kHierarchical, count, topology);
  std::vector<int64_t> out_of_host(3, 0);
  for (int from = 0; from < topology.world_size(); ++from) {
    for (int to = 0; to < topology.world_size(); ++to) {
      if (topology.AreTogether(from, to)) continue;
      out_of_host[topology.HostOf(from)] += sent[from][to];
    }
  }
  const int64_t expected = 2 * 2 * count / 3;
  EXPECT_THAT(out_of_host, ElementsAre(expected, expected, expected));
}

std::string Text(const Operation& operation) {
  const char* name = "finish";
  if (operation.kind == Operation::Kind::kSend) name = "send";
  if (operation.kind == Operation::Kind::kReceive) {
    name = operation.is_reduced ? "reduce" : "keep";
  }
  std::string text = absl::StrCat(name, " ", operation.begin);
  if (operation.after_peer >= 0) {
    absl::StrAppend(&text, " after ", operation.after_count,
                    operation.peer < 0 || operation.after_peer == operation.peer
                        ? ""
                        : " own");
  }
  return text;
}

// The list is what the engine follows as far as it can: after each segment
// added, its result goes out while the cache still has it.
TEST(ScheduleTest, TwoRanksAlternateWithoutScratch) {
  for (const Algorithm algorithm :
       {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalvingDoubling}) {
    ScheduleRequest request;
    request.op = CollectiveOp::kAllReduce;
    request.algorithm = algorithm;
    request.rank = 1;
    request.count = 8;
    request.segment_count = 1;
    request.has_finish = true;
    const Schedule schedule = BuildSchedule(request, Topology::OneHost(2));
    EXPECT_EQ(schedule.scratch_count, 0);
    std::vector<std::string> texts;
    for (const Operation& operation : schedule.operations) {
      texts.push_back(Text(operation));
    }
    EXPECT_THAT(texts, ElementsAre("send 0", "reduce 4", "finish 4 after 1",  //
                                   "send 1", "reduce 5", "finish 5 after 2",  //
                                   "send 2", "reduce 6", "finish 6 after 3",  //
                                   "send 4 after 1 own", "keep 0",            //
                                   "send 3", "reduce 7", "finish 7 after 5",  //
                                   "send 5 after 2 own", "keep 1",            //
                                   "send 6 after 3 own", "keep 2",            //
                                   "send 7 after 4 own", "keep 3"));
  }
}

// A segment is passed on as soon as it has come.
TEST(ScheduleTest, TheRingLeadsByOneChunk) {
  ScheduleRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.algorithm = Algorithm::kRing;
  request.count = 12;
  request.segment_count = 2;
  const Schedule schedule = BuildSchedule(request, Topology::OneHost(3));
  int64_t sends = 0;
  for (const Operation& operation : schedule.operations) {
    if (operation.kind != Operation::Kind::kSend) continue;
    const int64_t lead = 2;  // segments of a chunk
    EXPECT_EQ(operation.after_count, std::max<int64_t>(0, sends - lead + 1));
    ++sends;
  }
  EXPECT_EQ(sends, 8);
}

TEST(ScheduleTest, MemoryForOrderedSumsIsTwoSegments) {
  ScheduleRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.algorithm = Algorithm::kDirect;
  request.rank = 3;
  request.count = 100000;
  request.segment_count = 100;
  EXPECT_EQ(BuildSchedule(request, Topology::OneHost(4)).scratch_count, 200);
}

TEST(IsUsableTest, NeedsAMeshForDirectOnes) {
  const Topology large = Topology::OneHost(17);
  EXPECT_TRUE(IsUsable(Algorithm::kRing, large));
  EXPECT_TRUE(IsUsable(Algorithm::kHalvingDoubling, large));
  EXPECT_FALSE(IsUsable(Algorithm::kDirect, large));
  EXPECT_FALSE(IsUsable(Algorithm::kExchange, large));
  EXPECT_FALSE(IsUsable(Algorithm::kGatherBroadcast, large));
  EXPECT_FALSE(IsUsable(Algorithm::kHierarchical, large));
  EXPECT_FALSE(IsUsable(Algorithm::kAuto, large));
  std::vector<int> in_turn;
  for (int rank = 0; rank < 17; ++rank) in_turn.push_back(rank % 2);
  const Topology two_hosts = Topology(in_turn);
  EXPECT_FALSE(IsUsable(Algorithm::kDirect, two_hosts));
  EXPECT_TRUE(IsUsable(Algorithm::kHierarchical, two_hosts));
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_TRUE(IsUsable(algorithm, Topology::OneHost(16)));
  }
}

}  // namespace
}  // namespace ringmaster
