#include "tests/simulator/bug.h"

#include <array>

namespace ringmaster::simulator {
namespace {

constexpr std::array<PlantedBug, 18> kBugs = {{
    {Bug::kFenceOff, "fence-off", Invariant::kNoStaleMessage,
     "frames of an older generation are taken for the present one's"},
    {Bug::kHaltedAtOnce, "halted-at-once", Invariant::kOneGenerationPerStep,
     "a member says that it has halted, and trains on", Invariant::kNoStepLost},
    {Bug::kLostRecord, "lost-record", Invariant::kMonotoneGenerations,
     "the journal loses the last generation that it called durable"},
    {Bug::kMissingRecords, "missing-records", Invariant::kOneGenerationPerStep,
     "a step is applied when one record of a peer is there"},
    {Bug::kAppliedBeforeComplete, "applied-before-complete",
     Invariant::kOneGenerationPerStep,
     "a step is applied as soon as its own part is there"},
    {Bug::kToldBeforeDurable, "told-before-durable",
     Invariant::kMonotoneGenerations,
     "the journal calls a record durable before it is"},
    {Bug::kEvictedGoesOn, "evicted-goes-on", Invariant::kOneGenerationPerStep,
     "a worker whose peers are gone trains on alone"},
    {Bug::kStateNotCopied, "state-not-copied", Invariant::kEachSampleOnce,
     "a newcomer says that it holds the state, but has not copied it"},
    {Bug::kResumeOffByOne, "resume-off-by-one",
     Invariant::kOneGenerationPerStep,
     "members are told to go on one step too early"},
    {Bug::kDuplicateRank, "duplicate-rank", Invariant::kUniqueRanks,
     "rank 1 is told that it is rank 0"},
    {Bug::kEndlessLease, "endless-lease", Invariant::kProgress,
     "leases and the budgets of halts are an hour"},
    {Bug::kShortLease, "short-lease", Invariant::kEvictionsHaveCause,
     "workers are told to beat more seldom than their leases last"},
    {Bug::kSamplesFromStart, "samples-from-start", Invariant::kEachSampleOnce,
     "a generation begins with the first samples again"},
    {Bug::kHaltsDropped, "halts-dropped", Invariant::kEvictionsHaveCause,
     "halts never reach the members"},
    {Bug::kCopiesDropped, "copies-dropped", Invariant::kNoStepLost,
     "a holder drops its copy of a shard that others are to take over",
     Invariant::kNoStepLost, Holders::kServers},
    {Bug::kLeavesAtOnce, "leaves-at-once", Invariant::kNoStepLost,
     "a worker that is to leave does not wait until it is released"},
    {Bug::kQuarantineLost, "quarantine-lost", Invariant::kUnfitLeftOut,
     "the journal forgets which hosts are left out"},
    {Bug::kCalledUsage, "called-usage", Invariant::kProgress,
     "a worker that cannot read its data says that the job file is wrong"},
}};

}  // namespace

std::span<const PlantedBug> PlantedBugs() { return kBugs; }

std::optional<Bug> FindBug(std::string_view name) {
  if (name == "none") return Bug::kNone;
  for (const PlantedBug& planted : kBugs) {
    if (planted.name == name) return planted.bug;
  }
  return std::nullopt;
}

}  // namespace ringmaster::simulator
