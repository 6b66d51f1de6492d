// Annotate: adds context to a failed Status at a boundary, keeping its code and
// payloads.
#ifndef RINGMASTER_COMMON_STATUS_ANNOTATE_H_
#define RINGMASTER_COMMON_STATUS_ANNOTATE_H_

#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

// Returns `status` with "context: " put before its message; OK stays OK.
[[nodiscard]] absl::Status Annotate(const absl::Status& status,
                                    std::string_view context);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_STATUS_ANNOTATE_H_
