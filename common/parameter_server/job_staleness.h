// The staleness that all parameter servers of a job report, added up.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_JOB_STALENESS_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_JOB_STALENESS_H_

#include <cstdint>
#include <vector>

namespace ringmaster::v1 {
class Job;
}  // namespace ringmaster::v1

namespace ringmaster {

// At most kStalenessBins counts (common/parameter_server/staleness.h); none if
// no member reports any.
[[nodiscard]] std::vector<int64_t> StalenessOf(const v1::Job& job);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_JOB_STALENESS_H_
