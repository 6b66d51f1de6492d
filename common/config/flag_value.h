// The values of flags, from and to text; pure.
#ifndef RINGMASTER_COMMON_CONFIG_FLAG_VALUE_H_
#define RINGMASTER_COMMON_CONFIG_FLAG_VALUE_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/config/flags.h"

namespace ringmaster {

// Sets `target` from `texts`, which has at least one element: the last, or all
// for a vector. INVALID_ARGUMENT says why not, without the flag's name.
[[nodiscard]] absl::Status SetFlag(const FlagSpec& spec,
                                   const FlagTarget& target,
                                   std::span<const std::string> texts);

// Returns the value of `target` as text, for the help; "" if it is empty.
[[nodiscard]] std::string FlagText(const FlagTarget& target);

// Returns the unit that follows the flag in the help: the spec's, else its
// choices, else one that shows the type; "" for a bool.
[[nodiscard]] std::string FlagUnit(const FlagSpec& spec,
                                   const FlagTarget& target);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_FLAG_VALUE_H_
