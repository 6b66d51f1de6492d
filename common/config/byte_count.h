// Whole numbers in job files and flags; numbers of bytes may have a unit. Pure.
#ifndef RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_
#define RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_

#include <optional>
#include <string_view>

#include "absl/numeric/int128.h"

namespace ringmaster {

// Parses "256" or "-7". nullopt: not a whole number. A number of more than 64
// bits is returned as the largest or smallest of 128 bits, so that the caller's
// bounds refuse it.
[[nodiscard]] std::optional<absl::int128> ParseWholeNumber(
    std::string_view text);

// Parses a number of bytes: "65536", "64KiB", "512MiB", "8GiB". Otherwise as
// above.
[[nodiscard]] std::optional<absl::int128> ParseBytes(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_
