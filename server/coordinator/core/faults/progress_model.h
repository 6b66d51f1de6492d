// ProgressModel learns how long members of a job may show no progress, from the
// gaps in their progress while all was well.
//
// Per phase it keeps the longest gap between two signs of progress of one
// member (a step, a collective, a change of phase, disk bytes) as a maximum
// that decays: an outlier is half forgotten after kHalfLife spent in that
// phase. A phase that is never entered forgets nothing. It claims nothing about
// a phase before it has seen kLearnedRounds whole rounds of it (steps applied,
// or stays ended): the signs within a step come in clumps, so the first gaps
// say nothing about the longest.
//
// Steps and evaluations are shared work: with fewer ranks each takes
// proportionally longer. So the most work (gap times world size) is kept too,
// and bounds the gap in a smaller world. In a larger one the longest observed
// gap still counts, and fades. A change of size makes neither grow.
//
// Thread-safety: thread-compatible; a value, copied with its job.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROGRESS_MODEL_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROGRESS_MODEL_H_

#include <array>
#include <optional>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/worker.pb.h"

namespace ringmaster::coordinator {

class ProgressModel {
 public:
  // Outliers that recur within about a quarter of an hour of training are
  // remembered well enough: 2^-1.5 > 1/3.
  static constexpr absl::Duration kHalfLife = absl::Minutes(10);
  static constexpr int kLearnedRounds = 3;
  // A member may be silent for this many of the longest gaps.
  static constexpr int kPatience = 3;

  // A member of `world_size` showed progress, `gap` after it last did, and was
  // in `phase` in between. Phases in which nobody works are ignored.
  void Observe(v1::Phase phase, absl::Duration gap, int world_size,
               MonotonicTime now);

  // One whole round of `phase` is over.
  void NoteRound(v1::Phase phase);

  // nullopt while nothing is known of `phase`.
  [[nodiscard]] std::optional<absl::Duration> LongestGap(v1::Phase phase,
                                                         int world_size) const;

  // kPatience * LongestGap + `failure_budget`, at most `cap`; `cap` while
  // nothing is known.
  [[nodiscard]] absl::Duration Patience(v1::Phase phase, int world_size,
                                        absl::Duration failure_budget,
                                        absl::Duration cap) const;

  // The least patience with any phase.
  [[nodiscard]] absl::Duration LeastPatience(int world_size,
                                             absl::Duration failure_budget,
                                             absl::Duration cap) const;

 private:
  struct Learned {
    bool was_observed = false;
    absl::Duration longest;    // as observed
    absl::Duration most_work;  // gap times world size
    int rounds = 0;            // up to kLearnedRounds
    MonotonicTime observed_at;
  };
  static constexpr size_t kPhases = size_t{v1::Phase_MAX} + 1;

  [[nodiscard]] static absl::Duration Longest(v1::Phase phase,
                                              const Learned& learned,
                                              int world_size);

  std::array<Learned, kPhases> learned_;  // by v1::Phase
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROGRESS_MODEL_H_
