// Runs simulated clusters: seeds that found bugs once, fresh ones, and each
// planted bug until it is found.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/simulator/batch.h"
#include "tests/simulator/bug.h"
#include "tests/simulator/simulation.h"

namespace ringmaster::simulator {
namespace {

constexpr int kThreads = 2;

// The share for instrumented builds; the seeds file is run in full by all.
#ifdef RINGMASTER_SANITIZED
constexpr uint64_t kFreshSeeds = 100;
#else
constexpr uint64_t kFreshSeeds = 2'000;
#endif
constexpr uint64_t kMaxSeedsForBug = 10'000;

// The first word of each line that is not empty and no comment.
std::vector<uint64_t> ReadSeeds(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string word = line.substr(0, line.find(' '));
    const char* const end = word.data() + word.size();
    const auto [rest, error] =
        std::from_chars(word.data(), end, seeds.emplace_back());
    EXPECT_TRUE(error == std::errc() && rest == end)
        << path << ": begins with no seed: " << line;
  }
  return seeds;
}

std::string Explain(uint64_t seed, const Violation& violation,
                    RunOptions options) {
  options.is_traced = true;
  const RunResult result = RunSeed(seed, options);
  std::string text = "seed " + std::to_string(seed) + " breaks " +
                     std::string(TextOf(violation.invariant)) + ":\n  " +
                     violation.text + "\nthe last events:\n";
  for (const std::string& line : result.lines) text += line + "\n";
  return text + "again: simulate --verbose --seeds=" + std::to_string(seed) +
         ".." + std::to_string(seed) +
         " --holders=" + std::string(NameOf(options.holders)) +
         (options.has_liar ? " --liar" : "") +
         (options.has_many_jobs ? " --many" : "");
}

// Runs fresh seeds.
BatchResult ExpectNoBug(const RunOptions& options,
                        uint64_t seeds = kFreshSeeds) {
  const BatchResult batch =
      RunSeeds({.first = 1, .last = seeds, .jobs = kThreads, .run = options});
  EXPECT_FALSE(batch.violation.has_value())
      << Explain(batch.failed_seed, *batch.violation, options);
  EXPECT_EQ(batch.seeds, seeds);
  return batch;
}

void ExpectNoBugOf(uint64_t seed, const RunOptions& options) {
  const RunResult result = RunSeed(seed, options);
  EXPECT_FALSE(result.violation.has_value())
      << Explain(seed, *result.violation, options);
}

void ExpectFault(const BatchResult& batch, int kind) {
  EXPECT_GT(batch.faults[kind], 0)
      << NameOf(static_cast<FaultKind>(kind)) << " never happened";
}

TEST(SimulatorTest, SeedsThatFoundBugsOnceFindNone) {
  const std::vector<uint64_t> seeds = ReadSeeds("tests/simulator/seeds.txt");
  ASSERT_FALSE(seeds.empty());
  for (const uint64_t seed : seeds) {
    for (const Holders holders :
         {Holders::kRanks, Holders::kWorkers, Holders::kServers}) {
      for (const bool has_liar : {false, true}) {
        ExpectNoBugOf(seed, {.holders = holders, .has_liar = has_liar});
      }
    }
    ExpectNoBugOf(seed, {.has_many_jobs = true});
  }
}

TEST(SimulatorTest, FreshSeedsFindNoBug) {
  const BatchResult batch = ExpectNoBug({});
  for (int kind = 0; kind < kFaultKindsOfRanks; ++kind)
    ExpectFault(batch, kind);
  ExpectFault(batch, static_cast<int>(FaultKind::kLeaveAll));
  ExpectFault(batch, static_cast<int>(FaultKind::kTwin));
  ExpectFault(batch, static_cast<int>(FaultKind::kBadHost));
  ExpectFault(batch, static_cast<int>(FaultKind::kMute));
}

TEST(SimulatorTest, FreshSeedsOfJobsWithShardsFindNoBug) {
  EXPECT_GT(ExpectNoBug({.holders = Holders::kWorkers}).rollbacks, 0);
}

TEST(SimulatorTest, FreshSeedsOfJobsWithParameterServersFindNoBug) {
  const BatchResult batch = ExpectNoBug({.holders = Holders::kServers});
  EXPECT_GT(batch.rollbacks, 0);
  for (int kind = 0; kind < static_cast<int>(FaultKind::kLiar); ++kind)
    ExpectFault(batch, kind);
}

TEST(SimulatorTest, FreshSeedsWithALiarFindNoBug) {
  for (const Holders holders :
       {Holders::kRanks, Holders::kWorkers, Holders::kServers}) {
    const BatchResult batch =
        ExpectNoBug({.holders = holders, .has_liar = true}, kFreshSeeds / 5);
    ExpectFault(batch, static_cast<int>(FaultKind::kLiar));
    EXPECT_GT(batch.lies, batch.seeds);
    EXPECT_GT(batch.liar_evictions, 0);
    // It says false steps only of jobs without shards.
    EXPECT_EQ(batch.refutations > 0, holders == Holders::kRanks);
  }
}

TEST(SimulatorTest, FreshSeedsOfManyJobsFindNoBug) {
  const BatchResult batch =
      ExpectNoBug({.has_many_jobs = true}, kFreshSeeds / 2);
  EXPECT_GT(batch.suspensions, batch.seeds / 20);
  ExpectFault(batch, static_cast<int>(FaultKind::kTwin));
  ExpectFault(batch, static_cast<int>(FaultKind::kDrain));
}

TEST(SimulatorTest, ASeedIsARun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RunResult once = RunSeed(seed, {});
    const RunResult again = RunSeed(seed, {.is_traced = true});
    EXPECT_EQ(once.history_hash, again.history_hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
  }
  EXPECT_NE(RunSeed(1, {}).history_hash, RunSeed(2, {}).history_hash);
}

class PlantedBugTest : public testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedBugTest, IsFoundByItsInvariant) {
  const PlantedBug& planted = GetParam();
  std::string found_otherwise;
  uint64_t first = 1;
  while (first <= kMaxSeedsForBug) {
    const BatchResult batch =
        RunSeeds({.first = first,
                  .last = kMaxSeedsForBug,
                  .run = {.bug = planted.bug, .holders = planted.holders}});
    if (!batch.violation.has_value()) break;
    const Invariant found_by = batch.violation->invariant;
    if (found_by == planted.found_by || found_by == planted.or_by) {
      RecordProperty("seeds", static_cast<int>(batch.failed_seed));
      return;
    }
    // In some histories the bug's consequences break another one first.
    found_otherwise += "\n" + std::string(NumberOf(found_by)) + ", seed " +
                       std::to_string(batch.failed_seed) + ": " +
                       batch.violation->text;
    first = batch.failed_seed + 1;
  }
  FAIL() << "not found by " << NumberOf(planted.found_by) << " in "
         << kMaxSeedsForBug << " seeds: " << planted.what << found_otherwise;
}

std::string TestName(const testing::TestParamInfo<PlantedBug>& info) {
  std::string name;
  bool is_first = true;
  for (const char c : info.param.name) {
    if (c == '-') {
      is_first = true;
      continue;
    }
    name += is_first ? static_cast<char>(c - 'a' + 'A') : c;
    is_first = false;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugTest,
                         testing::ValuesIn(PlantedBugs().begin(),
                                           PlantedBugs().end()),
                         TestName);

}  // namespace
}  // namespace ringmaster::simulator
