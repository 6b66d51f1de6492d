#include "server/coordinator/core/placement/cost_agreement.h"

#include <algorithm>
#include <cstddef>

namespace ringmaster::coordinator {
namespace {

// Returns the median of the values that `field` gives for each.
template <typename Field>
auto MedianOf(const std::vector<MachineCosts>& measured, const Field& field) {
  std::vector<decltype(field(measured.front()))> values;
  for (const MachineCosts& costs : measured) values.push_back(field(costs));
  const auto middle =
      values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

PathCost MedianPath(const std::vector<MachineCosts>& measured,
                    PathCost MachineCosts::*path) {
  return {MedianOf(measured,
                   [&](const MachineCosts& c) { return (c.*path).latency; }),
          MedianOf(measured, [&](const MachineCosts& c) {
            return (c.*path).seconds_per_byte;
          })};
}

}  // namespace

std::optional<MachineCosts> AgreeOnCosts(
    const std::vector<MachineCosts>& measured) {
  if (measured.empty()) return std::nullopt;
  MachineCosts agreed;
  agreed.shared_memory = MedianPath(measured, &MachineCosts::shared_memory);
  agreed.unix_socket = MedianPath(measured, &MachineCosts::unix_socket);
  agreed.tcp = MedianPath(measured, &MachineCosts::tcp);
  agreed.remote = MedianPath(measured, &MachineCosts::remote);
  agreed.reduce_seconds_per_byte =
      MedianOf(measured,
               [](const MachineCosts& c) { return c.reduce_seconds_per_byte; });
  agreed.cores =
      MedianOf(measured, [](const MachineCosts& c) { return c.cores; });
  return agreed;
}

}  // namespace ringmaster::coordinator
