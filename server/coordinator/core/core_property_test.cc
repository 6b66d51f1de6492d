// Thousands of short random lives of a cluster, each checked for the invariants
// of random_cluster_checks.cc.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "server/coordinator/core/testing/random_cluster.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kRuns = 3000;
constexpr int kEventsPerRun = 400;

// Lives `seed`; nothing may be violated, and every job must end. Adds how often
// each thing happened to `counts`. A failure tells the last `log_lines` lines.
void Live(uint64_t seed, std::map<std::string, int>& counts,
          size_t log_lines = 60) {
  RandomCluster cluster(seed, log_lines);
  cluster.RunAtRandom(kEventsPerRun);
  const bool has_ended = cluster.RunToTheEnd();
  if (!cluster.violations().empty()) {
    ADD_FAILURE() << "seed " << seed << ": " << cluster.violations().front()
                  << "\nlast events:\n"
                  << cluster.Log();
  } else if (!has_ended) {
    ADD_FAILURE() << "seed " << seed << ": a job never ends; last events:\n"
                  << cluster.Log();
  }
  for (const auto& [what, count] : cluster.counts()) counts[what] += count;
}

TEST(CorePropertyTest, SeedsThatFoundBugsOnceFindNone) {
  // Another history once the cluster draws more, but near to one that was worth
  // a bug.
  constexpr uint64_t kSeeds[] = {
      // A job that gathered, and lacked a parameter server that another had,
      // kept the workers from it that this lacked.
      44868,
      // A server had given its shard away before the generation made a step,
      // and everybody else was lost: the job went on from its copy at once.
      70177,
      176115,
      191283,
      203472,
      // A generation that was overtaken before anybody was told of it was, for
      // a coordinator that restarted, its members' last: what one said of the
      // job that it had been in since was refused.
      263923,
      // Workers with clocks of their own were beyond the checkpoint of the
      // slowest one's: the last holders were let go, as if it had everything.
      236199,
      // A job that had been suspended was about to begin again as its queue got
      // a limit, and began beyond it.
      311556,
      // The last to hold a shard was let go while the journal failed; a
      // coordinator that restarted took the job for one without a step.
      340973,
      // Of the checks: updates of workers with clocks of their own are not
      // undone; what is from before a rollback that was overtaken counts no
      // more.
      402962,
      443821,
      415178,
      // A holder had part of the shards as of a step from which a generation was
      // told to go on, and part of the step before.
      2013312,
  };
  std::map<std::string, int> counts;
  for (const uint64_t seed : kSeeds) Live(seed, counts);
}

// CORE_PROPERTY_SEEDS=A..B runs these seeds too. A single one that fails tells
// all its events.
TEST(CorePropertyTest, InvariantsHoldForTheSeedsAskedFor) {
  const char* const seeds = std::getenv("CORE_PROPERTY_SEEDS");
  if (seeds == nullptr) GTEST_SKIP() << "CORE_PROPERTY_SEEDS is not set";
  uint64_t first = 0;
  uint64_t last = 0;
  ASSERT_EQ(std::sscanf(seeds, "%" SCNu64 "..%" SCNu64, &first, &last), 2)
      << "CORE_PROPERTY_SEEDS=" << seeds << ": expected A..B";
  std::map<std::string, int> counts;
  const size_t log_lines = first == last ? 1'000'000 : 60;
  for (uint64_t seed = first; seed <= last; ++seed)
    Live(seed, counts, log_lines);
}

TEST(CorePropertyTest, InvariantsHoldWhateverHappensAndEveryJobEnds) {
  std::map<std::string, int> counts;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    Live(seed, counts);
    ASSERT_FALSE(HasFailure());
  }
  // The runs must have exercised each of these often enough.
  constexpr const char* kOften[] = {"kill",
                                    "freeze",
                                    "break",
                                    "suspicion",
                                    "leave",
                                    "fail",
                                    "restart",
                                    "cancel",
                                    "cordon",
                                    "uncordon",
                                    "priority",
                                    "suspend",
                                    "scale",
                                    "gift",
                                    "journal failure",
                                    "generation",
                                    "load",
                                    "newcomer",
                                    "copy",
                                    "pause",
                                    "wait",
                                    "side by side",
                                    "rollback",
                                    "leave halted",
                                    "job with servers",
                                    "colocated job",
                                    "shard copied",
                                    "SUCCEEDED",
                                    "CANCELLED"};
  for (const char* what : kOften) {
    EXPECT_GT(counts[what], kRuns / 20) << what;
    RecordProperty(what, counts[what]);
  }
  for (const char* what : {"FAILED",
                           "quarantine",
                           "checked generation",
                           "unchecked generation",
                           "rollback of shards",
                           "relieved",
                           "rehearsal",
                           "not relieved",
                           "hand-over",
                           "failed leaver",
                           "leave with shards",
                           "spare dropped",
                           "copying generation",
                           "cordoned member",
                           "drained",
                           "drain due",
                           "saving generation",
                           "checkpoint of leavers",
                           "probe",
                           "suspended",
                           "gives way",
                           "gives way to one that it has overtaken",
                           "resume",
                           "queues",
                           "room checked",
                           "gives way to one within a quota",
                           "commands end early",
                           "move"}) {
    EXPECT_GT(counts[what], 0) << what;
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
