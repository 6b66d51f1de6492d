// The pattern that ranks fill their buffers with, and its sums.
//
// Thread-safety: pure functions.
#ifndef RINGMASTER_TESTS_GPU_ALL_REDUCE_KNOWN_SUMS_H_
#define RINGMASTER_TESTS_GPU_ALL_REDUCE_KNOWN_SUMS_H_

#include <cstdint>
#include <optional>
#include <span>

namespace ringmaster {

// Elements repeat with this period.
inline constexpr int64_t kKnownPeriod = 7;

// Element `i` of `rank`: small, so that sums are exact where there is no reason to
// round.
[[nodiscard]] float KnownValue(int rank, int64_t i);

// Element `i` after it was summed in place `times` times among `ranks` ranks.
[[nodiscard]] double KnownSum(int ranks, int times, int64_t i);

// The first of `values` that differs from such a sum by more than rounding, if
// any. They begin with a period.
[[nodiscard]] std::optional<int64_t> FirstWrongSum(
    std::span<const float> values, int ranks, int times);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_ALL_REDUCE_KNOWN_SUMS_H_
