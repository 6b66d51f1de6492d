// The version of this source tree, shown by --version.
#ifndef RINGMASTER_COMMON_CONFIG_VERSION_H_
#define RINGMASTER_COMMON_CONFIG_VERSION_H_

#include <string_view>

namespace ringmaster {

inline constexpr std::string_view kVersion = "ringmaster 0.1.0";

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_VERSION_H_
