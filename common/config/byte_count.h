// Whole numbers as job files and flags write them, those of bytes also with a
// unit; pure.
#ifndef RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_
#define RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_

#include <optional>
#include <string_view>

#include "absl/numeric/int128.h"

namespace ringmaster {

// "256", "-7". Nothing: that is no whole number. One of more than 64 bits is as
// large, or as small, as 128 bits hold: too much for whoever asks.
[[nodiscard]] std::optional<absl::int128> ParseWholeNumber(
    std::string_view text);

// "65536", "64KiB", "512MiB", "8GiB": bytes. Else as above.
[[nodiscard]] std::optional<absl::int128> ParseBytes(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_BYTE_COUNT_H_
