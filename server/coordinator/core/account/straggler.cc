#include "server/coordinator/core/account/straggler.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringmaster::coordinator {

namespace {

bool IsRank(const Job& job, int rank) {
  return rank >= 0 && rank < static_cast<int>(job.members.size());
}

bool IsServer(const Member& member) {
  return member.identity.role == v1::ROLE_PARAMETER_SERVER;
}

// Returns the rank that `member` ultimately waits for: a parameter server that
// waits itself only passes the wait on.
int AwaitedBy(const Job& job, const Member& member) {
  if (!IsRank(job, member.awaited_rank)) return -1;
  const Member& awaited = job.members[static_cast<size_t>(member.awaited_rank)];
  const bool passes_on =
      IsServer(awaited) && !awaited.is_lost &&
      IsRank(job, awaited.awaited_rank) &&
      awaited.awaited_ratio >= kMaxOwnWaitShare * member.awaited_ratio;
  return passes_on ? awaited.awaited_rank : member.awaited_rank;
}

}  // namespace

std::optional<Straggler> FindStraggler(const Job& job) {
  const int workers = AliveCount(job, v1::ROLE_WORKER);
  if (job.members.empty() || (job.state() != v1::JOB_STATE_RUNNING &&
                              job.state() != v1::JOB_STATE_STOPPING)) {
    return std::nullopt;
  }
  std::vector<double> waited(job.members.size(), 0);
  for (const Member& member : job.members) {
    const int rank = AwaitedBy(job, member);
    // A wait of a member for itself, or for nobody, does not count; nor do
    // NaNs.
    if (member.is_lost || IsServer(member) || rank < 0 ||
        rank == member.identity.rank || !(member.awaited_ratio > 0)) {
      continue;
    }
    waited[static_cast<size_t>(rank)] += std::min(1.0, member.awaited_ratio);
  }
  const auto most = std::max_element(waited.begin(), waited.end());
  const int rank = static_cast<int>(most - waited.begin());
  const Member& member = job.members[static_cast<size_t>(rank)];
  const int others = IsServer(member) ? workers : workers - 1;
  if (others < 1) return std::nullopt;
  const double ratio = *most / others;
  const double own_wait = member.awaited_rank < 0 ? 0 : member.awaited_ratio;
  if (member.is_lost || ratio <= kMinStragglerRatio ||
      own_wait >= kMaxOwnWaitShare * ratio) {
    return std::nullopt;
  }
  return Straggler{rank, ratio};
}

}  // namespace ringmaster::coordinator
