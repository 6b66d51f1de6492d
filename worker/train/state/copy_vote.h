// CopyVote says which state is right where ranks hold different ones after the
// state was copied to newcomers.
//
// The ranks that held the state before vote: they computed it each by itself. A
// newcomer repeats its source's state, or has got a damaged copy of it, so it
// has no vote. Pure; all ranks know the same and come to the same end.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_COPY_VOTE_H_
#define RINGMASTER_WORKER_TRAIN_STATE_COPY_VOTE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace ringmaster {

// A rank's state after the copy.
struct CopiedState {
  uint64_t hash = 0;
  bool is_newcomer = false;
};

struct CopyVote {
  // That of more than half of the voters; nullopt: no hash has so many.
  std::optional<uint64_t> hash;
  // The ranks at fault, ascending: voters that hold another state and, if the
  // source is none of them, newcomers that do. None without a majority.
  std::vector<int> odd_ranks;
};

// `states` are by rank; that of `source_rank` is a voter's.
[[nodiscard]] CopyVote VoteOnCopy(absl::Span<const CopiedState> states,
                                  int source_rank);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_COPY_VOTE_H_
