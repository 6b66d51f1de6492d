#include "worker/external/rank_meeting.h"

#include <algorithm>
#include <array>
#include <cstring>

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

absl::StatusOr<std::string> RankMeeting::TextOfFirst(const std::string& text) {
  std::array<int64_t, kMaxTextBytes / sizeof(int64_t) + 1> buffer{};
  const size_t size = std::min(text.size(), kMaxTextBytes);
  if (communicator_.rank() == 0) {
    buffer[0] = static_cast<int64_t>(size);
    std::memcpy(&buffer[1], text.data(), size);
  }
  RETURN_IF_ERROR(communicator_.Run(
      Broadcast(BufferView::Of(std::span<int64_t>(buffer)), /*root=*/0),
      clock_.Now() + patience_));
  const auto told = static_cast<size_t>(
      std::clamp<int64_t>(buffer[0], 0, static_cast<int64_t>(kMaxTextBytes)));
  std::string result(told, '\0');
  std::memcpy(result.data(), &buffer[1], told);
  return result;
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
