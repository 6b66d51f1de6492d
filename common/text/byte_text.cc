#include "common/text/byte_text.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster {

std::string FormatBytes(int64_t bytes) {
  if (bytes < 0) return "-";
  static constexpr std::array<const char*, 7> kUnits = {
      "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, "B");
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // A value that rounds to 1024 is 1 of the next unit.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return value >= 100  ? absl::StrFormat("%.0f%s", value, kUnits[unit])
         : value >= 10 ? absl::StrFormat("%.1f%s", value, kUnits[unit])
                       : absl::StrFormat("%.2f%s", value, kUnits[unit]);
}

}  // namespace ringmaster
