// ReadTextFile: a small file that the user named (job spec, certificate).
#ifndef RINGMASTER_COMMON_CONFIG_READ_FILE_H_
#define RINGMASTER_COMMON_CONFIG_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace ringmaster {

inline constexpr size_t kMaxTextFileBytes = size_t{1} << 20;

// The whole content of `path`. INVALID_ARGUMENT, without the path in its
// message: what the system says, or that the file is over kMaxTextFileBytes.
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_READ_FILE_H_
