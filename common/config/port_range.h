// PortRange: the ports that a firewall lets through, "29500-29599"; pure.
#ifndef RINGMASTER_COMMON_CONFIG_PORT_RANGE_H_
#define RINGMASTER_COMMON_CONFIG_PORT_RANGE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace ringmaster {

// Ports `first` to `last`, both among them.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  [[nodiscard]] int count() const { return last - first + 1; }
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// Parses FIRST-LAST. INVALID_ARGUMENT shows the form to write.
[[nodiscard]] absl::StatusOr<PortRange> ParsePortRange(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_PORT_RANGE_H_
