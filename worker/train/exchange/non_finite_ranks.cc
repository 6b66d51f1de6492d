#include "worker/train/exchange/non_finite_ranks.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr size_t kMostNamed = 8;

}  // namespace

absl::StatusOr<std::vector<int>> FindNonFiniteRanks(Communicator& communicator,
                                                    int64_t first_sequence,
                                                    MonotonicTime deadline) {
  const int world_size = communicator.world_size();
  std::vector<int64_t> marks;
  for (int rank = 0; rank < world_size; ++rank)
    marks.push_back(communicator.LastNonFinite(rank) >= first_sequence ? 1 : 0);
  CollectiveRequest request =
      AllReduceSum(BufferView::Of(std::span<int64_t>(marks)));
  request.reduction = Reduction::kMax;
  RETURN_IF_ERROR(communicator.Run(request, deadline));
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    if (marks[static_cast<size_t>(rank)] != 0) ranks.push_back(rank);
  }
  return ranks;
}

std::string OriginOfNonFinite(std::span<const int> ranks, int world_size) {
  if (world_size == 1) return "";
  if (ranks.empty()) return "every rank's own was finite, their sum was not";
  if (ranks.size() == static_cast<size_t>(world_size))
    return "it came from every rank";
  if (ranks.size() == 1) return absl::StrCat("it came from rank ", ranks[0]);
  const auto named = ranks.first(std::min(ranks.size(), kMostNamed));
  const size_t others = ranks.size() - named.size();
  return absl::StrCat(
      "it came from ranks ", absl::StrJoin(named.begin(), named.end(), ", "),
      others > 0 ? absl::StrCat(" and ", others, " others") : "");
}

}  // namespace ringmaster
