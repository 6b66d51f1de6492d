// The invariants that every simulated run is checked against.
#ifndef RINGMASTER_TESTS_SIMULATOR_INVARIANT_H_
#define RINGMASTER_TESTS_SIMULATOR_INVARIANT_H_

#include <string>
#include <string_view>

namespace ringmaster::simulator {

enum class Invariant {
  kOneMembership,         // I1
  kMonotoneGenerations,   // I2
  kOneGenerationPerStep,  // I3
  kNoStaleMessage,        // I4
  kUniqueRanks,           // I5
  kEachSampleOnce,        // I6
  kProgress,              // I7
  kEvictionsHaveCause,    // I8
  kNoStepLost,            // I9
  kUnfitLeftOut,          // I10
  kFewAttempts,           // I11
};

// "I3", ...
[[nodiscard]] std::string_view NumberOf(Invariant invariant);
// "I3 a step commits under exactly one generation, with all members or none".
[[nodiscard]] std::string_view TextOf(Invariant invariant);

struct Violation {
  Invariant invariant = Invariant::kOneMembership;
  std::string text;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_INVARIANT_H_
