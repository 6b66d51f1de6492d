#include "server/coordinator/core/faults/progress_model.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::coordinator {
namespace {

bool IsWork(v1::Phase phase) {
  switch (phase) {
    case v1::PHASE_PREPARE:
    case v1::PHASE_CONNECT:
    case v1::PHASE_STEP:
    case v1::PHASE_EVALUATE:
    case v1::PHASE_TRANSFER:
    case v1::PHASE_CHECKPOINT:
      return true;
    default:  // unspecified, idle, halted
      return false;
  }
}

bool IsSharedWork(v1::Phase phase) {
  return phase == v1::PHASE_STEP || phase == v1::PHASE_EVALUATE;
}

}  // namespace

absl::Duration ProgressModel::Longest(v1::Phase phase, const Learned& learned,
                                      int world_size) {
  if (!IsSharedWork(phase) || world_size < 1) return learned.longest;
  return std::max(learned.longest, learned.most_work / world_size);
}

void ProgressModel::Observe(v1::Phase phase, absl::Duration gap, int world_size,
                            MonotonicTime now) {
  if (!IsWork(phase) || gap < absl::ZeroDuration()) return;
  Learned& learned = learned_[static_cast<size_t>(phase)];
  if (learned.was_observed) {
    // All members report gaps over the same time, which must be counted only
    // once.
    const absl::Duration passed = std::min(gap, now - learned.observed_at);
    const double kept = std::exp2(
        -absl::FDivDuration(std::max(passed, absl::ZeroDuration()), kHalfLife));
    learned.longest *= kept;
    learned.most_work *= kept;
  }
  learned.longest = std::max(learned.longest, gap);
  learned.most_work = std::max(learned.most_work, gap * world_size);
  learned.was_observed = true;
  learned.observed_at = now;
}

void ProgressModel::NoteRound(v1::Phase phase) {
  Learned& learned = learned_[static_cast<size_t>(phase)];
  learned.rounds = std::min(learned.rounds + 1, kLearnedRounds);
}

std::optional<absl::Duration> ProgressModel::LongestGap(v1::Phase phase,
                                                        int world_size) const {
  const Learned& learned = learned_[static_cast<size_t>(phase)];
  if (!learned.was_observed || learned.rounds < kLearnedRounds) {
    return std::nullopt;
  }
  return Longest(phase, learned, world_size);
}

absl::Duration ProgressModel::Patience(v1::Phase phase, int world_size,
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
    least = std::min(least, Patience(static_cast<v1::Phase>(i), world_size,
                                     failure_budget, cap));
  }
  return least;
}

}  // namespace ringmaster::coordinator
