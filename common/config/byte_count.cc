#include "common/config/byte_count.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace ringmaster {
namespace {

bool HasDigitsAlone(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

bool FitsIn64Bits(absl::int128 value) {
  return value >= std::numeric_limits<int64_t>::min() &&
         value <= absl::int128(std::numeric_limits<uint64_t>::max());
}

// Takes KiB, MiB or GiB off the end of `text`; returns the factor.
int64_t ConsumeByteUnit(absl::string_view& text) {
  if (absl::ConsumeSuffix(&text, "KiB")) return int64_t{1} << 10;
  if (absl::ConsumeSuffix(&text, "MiB")) return int64_t{1} << 20;
  if (absl::ConsumeSuffix(&text, "GiB")) return int64_t{1} << 30;
  return 1;
}

// 128 bits hold every product of a 64-bit number and a unit.
std::optional<absl::int128> ParseMultiple(absl::string_view text,
                                          int64_t unit) {
  absl::string_view digits = text;
  const bool is_negative = absl::ConsumePrefix(&digits, "-");
  if (!HasDigitsAlone(digits)) return std::nullopt;
  absl::int128 value = 0;
  if (!absl::SimpleAtoi(text, &value) || !FitsIn64Bits(value)) {
    return is_negative ? std::numeric_limits<absl::int128>::min()
                       : std::numeric_limits<absl::int128>::max();
  }
  return value * unit;
}

}  // namespace

std::optional<absl::int128> ParseWholeNumber(std::string_view text) {
  return ParseMultiple({text.data(), text.size()}, 1);
}

std::optional<absl::int128> ParseBytes(std::string_view text) {
  absl::string_view digits(text.data(), text.size());
  const int64_t unit = ConsumeByteUnit(digits);
  return ParseMultiple(digits, unit);
}

}  // namespace ringmaster
