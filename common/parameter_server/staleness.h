// Counts of answers by how many steps ahead of the slowest worker's push of the
// same bucket a push was when it was answered: how old the values are that a
// worker goes on with, as far as others are concerned.
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
