#include "tests/simulator/fault.h"

#include <algorithm>

#include "tests/simulator/shape.h"

namespace ringmaster::simulator {
namespace {

// Short ones are as likely as long ones.
int64_t DrawDuration(Random& random) {
  switch (random.Between(0, 3)) {
    case 0:
      return random.Between(1, 100) * kMillisecond;
    case 1:
      return random.Between(100, 1'000) * kMillisecond;
    case 2:
      return random.Between(1, 5) * kSecond;
    default:
      return random.Between(5'000, 20'000) * kMillisecond;
  }
}

}  // namespace

std::string_view NameOf(FaultKind kind) {
  static constexpr std::array<std::string_view, kFaultKinds> kNames = {
      "kill",
      "kill-several",
      "host-lost",
      "freeze",
      "cut-session",
      "cut-peers",
      "isolate",
      "reset-session",
      "reset-peers",
      "coordinator-kill",
      "coordinator-stall",
      "journal-fails",
      "slow",
      "drain",
      "freeze-all",
      "cut-coordinator",
      "reset-sessions",
      "kill-holder",
      "kill-giver",
      "leave-all",
      "twin",
      "bad-host",
      "liar",
      "mute"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view NameOf(Moment moment) {
  static constexpr std::array<std::string_view, kMoments> kNames = {
      "time",      "halt",       "formation",       "assignment",
      "preparing", "connecting", "commit exchange", "state copy",
      "pause",     "reattach"};
  return kNames[static_cast<size_t>(moment)];
}

FaultPlan DrawFaults(Random& random, Random& leave_random, Random& late_random,
                     bool has_copies) {
  FaultPlan plan;
  for (Fault& fault : plan) {
    fault.kind =
        static_cast<FaultKind>(random.Between(0, kFaultKindsOfRanks - 1));
    if (leave_random.Between(1, kFaultKindsOfRanks) == 1)
      fault.kind = FaultKind::kLeaveAll;
    fault.time = random.Between(300, 40'000) * kMillisecond;
    if (random.Chance(50)) {
      fault.moment = static_cast<Moment>(random.Between(1, kMoments - 1));
      fault.delay = random.Chance(50) ? random.Between(0, 300) * kMicrosecond
                                      : random.Between(0, 30) * kMillisecond;
      // So that moments which follow faults find some.
      if (random.Chance(50)) fault.time = kSecond;
    }
    fault.duration = DrawDuration(random);
    fault.directions = static_cast<int>(random.Between(1, 3));
  }
  if (has_copies && random.Chance(50)) {
    plan.front() = {.kind = FaultKind::kKillHolder,
                    .time = random.Between(3'000, 40'000) * kMillisecond};
  }
  if (late_random.Chance(15)) {
    // Shorter than it waits for members that may come back (state_wait).
    plan.back() = {.kind = FaultKind::kTwin,
                   .time = late_random.Between(3'000, 40'000) * kMillisecond,
                   .duration = late_random.Between(50, 4'000) * kMillisecond};
  }
  if (late_random.Chance(15)) {
    // From the beginning, or later.
    plan[kFaults - 2] = {
        .kind = FaultKind::kBadHost,
        .time = late_random.Chance(50)
                    ? 0
                    : late_random.Between(3'000, 40'000) * kMillisecond,
        .way = static_cast<BadHost>(late_random.Between(1, 3)),
        .is_everywhere = late_random.Chance(25)};
  }
  return plan;
}

Fault DrawLiar(Random& random) {
  return {.kind = FaultKind::kLiar,
          .time = random.Between(1'000, 40'000) * kMillisecond,
          .duration = random.Between(1'000, 20'000) * kMillisecond};
}

Fault DrawMute(Random& random) {
  return {.kind = FaultKind::kMute,
          .time = random.Between(1'000, 40'000) * kMillisecond,
          .duration = random.Between(1'000, 60'000) * kMillisecond};
}

}  // namespace ringmaster::simulator
