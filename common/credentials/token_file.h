// The file with a caller's bearer token.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TOKEN_FILE_H_
#define RINGMASTER_COMMON_CREDENTIALS_TOKEN_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace ringmaster {

// The token in the file at `path`, without the space around it.
// INVALID_ARGUMENT names the flag --token_file and the file: it cannot be read, is
// empty or no token (RFC 6750, section 2.1), or others than its owner can read it.
// The token itself is never part of an error.
[[nodiscard]] absl::StatusOr<std::string> ReadToken(const std::string& path);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TOKEN_FILE_H_
