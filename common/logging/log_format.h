// The two forms of a log line; pure.
#ifndef RINGMASTER_COMMON_LOGGING_LOG_FORMAT_H_
#define RINGMASTER_COMMON_LOGGING_LOG_FORMAT_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/logging/log_value.h"
#include "common/logging/logging.h"

namespace ringmaster {

struct LogRecord {
  absl::Time time;
  LogLevel level = LogLevel::kInfo;
  std::string_view role;
  std::string_view worker;
  std::string_view event;
  // rank, generation, step, where they are set.
  std::span<const LogField> context;
  std::span<const LogField> fields;
};

// Context and fields: "rank=2 job=words".
[[nodiscard]] std::string FormatLogFields(const LogRecord& record);
// The whole line.
[[nodiscard]] std::string FormatLogText(const LogRecord& record,
                                        absl::TimeZone zone);
[[nodiscard]] std::string FormatLogJson(const LogRecord& record);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_LOG_FORMAT_H_
