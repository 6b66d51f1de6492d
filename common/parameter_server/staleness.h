// Staleness counts answers to pushes by their lead: how many steps a push was
// ahead of the slowest worker's push of the same bucket when it was answered.
// The lead is the age of the values that the worker continues with, as far as
// other workers' gradients are concerned.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_STALENESS_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_STALENESS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringmaster {

// The last one counts all that were further ahead.
inline constexpr size_t kStalenessBins = 16;

using StalenessCounts = std::array<int64_t, kStalenessBins>;

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_STALENESS_H_
