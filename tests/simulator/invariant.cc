#include "tests/simulator/invariant.h"

namespace ringmaster::simulator {

std::string_view NumberOf(Invariant invariant) {
  const std::string_view text = TextOf(invariant);
  return text.substr(0, text.find(' '));
}

std::string_view TextOf(Invariant invariant) {
  switch (invariant) {
    case Invariant::kOneMembership:
      return "I1 a generation has one membership";
    case Invariant::kMonotoneGenerations:
      return "I2 generations rise strictly, over crashes too, and nobody is "
             "told of one that is not durable";
    case Invariant::kOneGenerationPerStep:
      return "I3 a step commits under exactly one generation, with all "
             "members or none";
    case Invariant::kNoStaleMessage:
      return "I4 no message of an older generation changes anything";
    case Invariant::kUniqueRanks:
      return "I5 ranks are 0 to n-1, each held once";
    case Invariant::kEachSampleOnce:
      return "I6 each sample counts in exactly one committed step";
    case Invariant::kProgress:
      return "I7 with enough live workers and no fault under way, a step "
             "commits in bounded time, and the job ends well";
    case Invariant::kEvictionsHaveCause:
      return "I8 an eviction has evidence and a cause";
    case Invariant::kNoStepLost:
      return "I9 a committed step is lost only with all who hold it";
    case Invariant::kUnfitLeftOut:
      return "I10 a host on which a worker has failed by its own fault is left "
             "out for a while";
    case Invariant::kFewAttempts:
      return "I11 few generations begin at one step";
  }
  return "?";
}

}  // namespace ringmaster::simulator
