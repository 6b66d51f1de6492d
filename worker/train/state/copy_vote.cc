#include "worker/train/state/copy_vote.h"

#include <map>

namespace ringmaster {
namespace {

std::optional<uint64_t> MajorityOf(absl::Span<const CopiedState> states) {
  std::map<uint64_t, int> votes;
  int voters = 0;
  for (const CopiedState& state : states) {
    if (state.is_newcomer) continue;
    ++voters;
    ++votes[state.hash];
  }
  for (const auto& [hash, count] : votes) {
    if (2 * count > voters) return hash;
  }
  return std::nullopt;
}

}  // namespace

CopyVote VoteOnCopy(absl::Span<const CopiedState> states, int source_rank) {
  CopyVote vote{MajorityOf(states), {}};
  if (!vote.hash.has_value()) return vote;
  const bool is_source_right =
      states[static_cast<size_t>(source_rank)].hash == *vote.hash;
  for (size_t rank = 0; rank < states.size(); ++rank) {
    const CopiedState& state = states[rank];
    // What a newcomer got from a source that is wrong is not its own fault.
    if (state.hash == *vote.hash || (state.is_newcomer && !is_source_right))
      continue;
    vote.odd_ranks.push_back(static_cast<int>(rank));
  }
  return vote;
}

}  // namespace ringmaster
