// FormatInstant: how logs, events and tables write a date and time.
#ifndef RINGMASTER_COMMON_TEXT_INSTANT_H_
#define RINGMASTER_COMMON_TEXT_INSTANT_H_

#include <string>

#include "absl/time/time.h"

namespace ringmaster {

// RFC 3339 with milliseconds and the offset of `zone` at that time:
// "2026-11-24T13:46:20.130+01:00".
[[nodiscard]] std::string FormatInstant(absl::Time time, absl::TimeZone zone);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TEXT_INSTANT_H_
