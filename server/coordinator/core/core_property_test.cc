// Thousands of short random lives of a cluster, each checked for the invariants
// of random_cluster_checks.cc.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "server/coordinator/core/testing/random_cluster.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kRuns = 3000;
constexpr int kEventsPerRun = 400;

TEST(CorePropertyTest, InvariantsHoldWhateverHappensAndEveryJobEnds) {
  std::map<std::string, int> counts;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    RandomCluster cluster(seed);
    cluster.RunAtRandom(kEventsPerRun);
    const bool has_ended = cluster.RunToTheEnd();
    ASSERT_TRUE(cluster.violations().empty())
        << "seed " << seed << ": " << cluster.violations().front()
        << "\nlast events:\n"
        << cluster.Log();
    ASSERT_TRUE(has_ended) << "seed " << seed
                           << ": a job never ends; last events:\n"
                           << cluster.Log();
    for (const auto& [what, count] : cluster.counts()) counts[what] += count;
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
                                    "FAILED",
                                    "CANCELLED"};
  for (const char* what : kOften) {
    EXPECT_GT(counts[what], kRuns / 20) << what;
    RecordProperty(what, counts[what]);
  }
  for (const char* what : {"quarantine",
                           "checked generation",
                           "unchecked generation",
                           "rollback of shards",
                           "relieved",
                           "rehearsal",
                           "not relieved",
                           "hand-over",
                           "leave with shards",
                           "spare dropped",
                           "copying generation",
                           "cordoned member",
                           "drained",
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
