#include "worker/external/rank_meeting.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {
constexpr int64_t kMostRanks = 4096;  // as job.proto allows workers.max
}  // namespace

absl::Status RankMeeting::TakeMaxima(std::span<int64_t> values) {
  CollectiveRequest request = AllReduceSum(BufferView::Of(values));
  request.reduction = Reduction::kMax;
  return communicator_.Run(request, clock_.Now() + patience_);
}

absl::StatusOr<std::string> RankMeeting::TextOf(int rank,
                                                const std::string& text) {
  const bool is_own = communicator_.rank() == rank;
  std::array<int64_t, 1> size = {is_own ? static_cast<int64_t>(text.size())
                                        : 0};
  RETURN_IF_ERROR(TakeMaxima(size));
  std::vector<int64_t> buffer(static_cast<size_t>(size[0]) / sizeof(int64_t) +
                              1);
  if (is_own) std::memcpy(buffer.data(), text.data(), text.size());
  RETURN_IF_ERROR(communicator_.Run(
      Broadcast(BufferView::Of(std::span<int64_t>(buffer)), rank),
      clock_.Now() + patience_));
  std::string result(static_cast<size_t>(size[0]), '\0');
  std::memcpy(result.data(), buffer.data(), result.size());
  return result;
}

absl::StatusOr<std::optional<int>> RankMeeting::LowestOf(bool is_one) {
  std::array<int64_t, 1> highest = {is_one ? kMostRanks - communicator_.rank()
                                           : 0};
  RETURN_IF_ERROR(TakeMaxima(highest));
  if (highest[0] == 0) return std::nullopt;
  return static_cast<int>(kMostRanks - highest[0]);
}

absl::StatusOr<int> RankMeeting::FirstToFail(
    std::optional<absl::Duration> since) {
  // The ranks have just met: by their own clocks they are as good as at one
  // moment.
  std::array<int64_t, 1> longest = {-1};
  if (since.has_value()) {
    longest[0] = absl::ToInt64Microseconds(*since) * kMostRanks +
                 (kMostRanks - 1 - communicator_.rank());
  }
  RETURN_IF_ERROR(TakeMaxima(longest));
  if (longest[0] < 0)
    return absl::InternalError("the ranks met over a failure that none has");
  return static_cast<int>(kMostRanks - 1 - longest[0] % kMostRanks);
}

}  // namespace ringmaster
