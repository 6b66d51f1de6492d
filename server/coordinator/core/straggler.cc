#include "server/coordinator/core/straggler.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringmaster::coordinator {

std::optional<Straggler> FindStraggler(const Job& job) {
  const int others = AliveCount(job) - 1;
  if (others < 1 ||
      (job.state != JobState::kRunning && job.state != JobState::kStopping)) {
    return std::nullopt;
  }
  std::vector<double> waited(job.members.size(), 0);
  for (const Member& member : job.members) {
    const int rank = member.awaited_rank;
    // What a member says of itself, or of nobody, counts for nothing; nor do
    // numbers that are none.
    if (member.is_lost || rank < 0 || rank == member.identity.rank ||
        rank >= static_cast<int>(waited.size()) ||
        !(member.awaited_ratio > 0)) {
      continue;
    }
    waited[static_cast<size_t>(rank)] += std::min(1.0, member.awaited_ratio);
  }
  const auto most = std::max_element(waited.begin(), waited.end());
  const int rank = static_cast<int>(most - waited.begin());
  const double ratio = *most / others;
  const Member& member = job.members[static_cast<size_t>(rank)];
  const double own_wait = member.awaited_rank < 0 ? 0 : member.awaited_ratio;
  if (member.is_lost || ratio <= kMinStragglerRatio ||
      own_wait >= kMaxOwnWaitShare * ratio) {
    return std::nullopt;
  }
  return Straggler{rank, ratio};
}

}  // namespace ringmaster::coordinator
