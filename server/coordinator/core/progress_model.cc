#include "server/coordinator/core/progress_model.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::coordinator {
namespace {

bool IsWork(Phase phase) {
  switch (phase) {
    case Phase::kPrepare:
    case Phase::kConnect:
    case Phase::kStep:
    case Phase::kEvaluate:
    case Phase::kTransfer:
    case Phase::kCheckpoint:
      return true;
    case Phase::kUnspecified:
    case Phase::kIdle:
    case Phase::kHalted:
      return false;
  }
  return false;
}

bool IsSharedWork(Phase phase) {
  return phase == Phase::kStep || phase == Phase::kEvaluate;
}

}  // namespace

absl::Duration ProgressModel::Scaled(Phase phase, const Learned& learned,
                                     int world_size) {
  if (!IsSharedWork(phase) || world_size >= learned.world_size ||
      world_size < 1) {
    return learned.longest;
  }
  return learned.longest * learned.world_size / world_size;
}

void ProgressModel::Observe(Phase phase, absl::Duration gap, int world_size,
                            MonotonicTime now) {
  if (!IsWork(phase) || gap < absl::ZeroDuration()) return;
  Learned& learned = learned_[static_cast<size_t>(phase)];
  if (learned.world_size > 0) {
    // Members observe the same time, each for itself: it passes once.
    const absl::Duration passed = std::min(gap, now - learned.observed_at);
    learned.longest = Scaled(phase, learned, world_size) *
                      std::exp2(-absl::FDivDuration(
                          std::max(passed, absl::ZeroDuration()), kHalfLife));
  }
  learned.longest = std::max(learned.longest, gap);
  learned.world_size = world_size;
  learned.observed_at = now;
}

void ProgressModel::NoteRound(Phase phase) {
  Learned& learned = learned_[static_cast<size_t>(phase)];
  learned.rounds = std::min(learned.rounds + 1, kLearnedRounds);
}

std::optional<absl::Duration> ProgressModel::LongestGap(Phase phase,
                                                        int world_size) const {
  const Learned& learned = learned_[static_cast<size_t>(phase)];
  if (learned.world_size == 0 || learned.rounds < kLearnedRounds) {
    return std::nullopt;
  }
  return Scaled(phase, learned, world_size);
}

absl::Duration ProgressModel::Patience(Phase phase, int world_size,
                                       absl::Duration failure_budget,
                                       absl::Duration cap) const {
  const std::optional<absl::Duration> longest = LongestGap(phase, world_size);
  if (!longest.has_value()) return cap;
  return std::min(cap, kPatience * *longest + failure_budget);
}

absl::Duration ProgressModel::LeastPatience(int world_size,
                                            absl::Duration failure_budget,
                                            absl::Duration cap) const {
  absl::Duration least = cap;
  for (size_t i = 0; i < kPhases; ++i) {
    least = std::min(least, Patience(static_cast<Phase>(i), world_size,
                                     failure_budget, cap));
  }
  return least;
}

}  // namespace ringmaster::coordinator
