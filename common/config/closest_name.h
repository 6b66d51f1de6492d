// ClosestName suggests the name that a user probably meant to type; pure.
#ifndef RINGMASTER_COMMON_CONFIG_CLOSEST_NAME_H_
#define RINGMASTER_COMMON_CONFIG_CLOSEST_NAME_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ringmaster {

// The number of letters to insert, delete, replace or swap with their neighbour
// to make `b` from `a` (optimal string alignment distance).
[[nodiscard]] int EditDistance(std::string_view a, std::string_view b);

// Returns the entry of `names` that is closest to `wrong`, the first if there
// are several; nullopt if none is close enough to be worth suggesting.
[[nodiscard]] std::optional<std::string> ClosestName(
    std::string_view wrong, std::span<const std::string> names);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_CLOSEST_NAME_H_
