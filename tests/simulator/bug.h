// Bugs that can be planted into the simulator's adapters and its trainer (never
// into the cores), to see that the invariants find them.
#ifndef RINGMASTER_TESTS_SIMULATOR_BUG_H_
#define RINGMASTER_TESTS_SIMULATOR_BUG_H_

#include <optional>
#include <span>
#include <string_view>

#include "tests/simulator/holders.h"
#include "tests/simulator/invariant.h"

namespace ringmaster::simulator {

enum class Bug {
  kNone,
  kFenceOff,
  kHaltedAtOnce,
  kLostRecord,
  kMissingRecords,
  kAppliedBeforeComplete,
  kToldBeforeDurable,
  kEvictedGoesOn,
  kStateNotCopied,
  kResumeOffByOne,
  kDuplicateRank,
  kEndlessLease,
  kShortLease,
  kSamplesFromStart,
  kHaltsDropped,
  kCopiesDropped,
  kLeavesAtOnce,
  kQuarantineLost,
  kCalledUsage,
};

struct PlantedBug {
  Bug bug = Bug::kNone;
  std::string_view name;  // for --bug
  Invariant found_by = Invariant::kOneMembership;
  std::string_view what;
  // Another one that sees the same damage, in other histories.
  Invariant or_by = found_by;
  // The jobs in which it can do damage.
  Holders holders = Holders::kRanks;
};

// All but kNone.
[[nodiscard]] std::span<const PlantedBug> PlantedBugs();
// Nothing if there is no such name; "none" is kNone.
[[nodiscard]] std::optional<Bug> FindBug(std::string_view name);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_BUG_H_
