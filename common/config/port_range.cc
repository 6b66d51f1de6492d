#include "common/config/port_range.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  const size_t dash = text.find('-');
  uint32_t first = 0;
  uint32_t last = 0;
  const auto parse = [](std::string_view digits, uint32_t& port) {
    return digits.find_first_not_of("0123456789") == std::string_view::npos &&
           absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                            &port) &&
           port >= 1 && port <= 65535;
  };
  if (dash == std::string_view::npos || !parse(text.substr(0, dash), first) ||
      !parse(text.substr(dash + 1), last) || first > last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", std::string(text),
        "\" is no range of ports from 1 to 65535; write FIRST-LAST, as "
        "29500-29599"));
  }
  return PortRange{static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

}  // namespace ringmaster
