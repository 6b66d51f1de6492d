#include "common/parameter_server/job_staleness.h"

#include <algorithm>
#include <cstddef>

#include "common/parameter_server/staleness.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

std::vector<int64_t> StalenessOf(const v1::Job& job) {
  std::vector<int64_t> counts;
  for (const v1::Member& member : job.members()) {
    const auto& own = member.figures().staleness();
    const size_t bins =
        std::min(static_cast<size_t>(own.size()), kStalenessBins);
    counts.resize(std::max(counts.size(), bins));
    for (size_t ahead = 0; ahead < bins; ++ahead)
      counts[ahead] += own[static_cast<int>(ahead)];
  }
  return counts;
}

}  // namespace ringmaster
