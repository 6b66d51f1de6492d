// Conversions between kept log lines and the protocol's messages. Pure.
#ifndef RINGMASTER_COMMON_LOGGING_LOG_PROTO_H_
#define RINGMASTER_COMMON_LOGGING_LOG_PROTO_H_

#include <cstddef>
#include <cstdint>

#include "common/logging/logging.h"
#include "ringmaster/v1/log.pb.h"

namespace ringmaster {

// A severity that is not set, or of a later release, is the least.
[[nodiscard]] LogSelection ToLogSelection(const v1::LogFilter& filter,
                                          int64_t after_sequence,
                                          size_t max_bytes);

[[nodiscard]] v1::LogPage ToProto(const LogLines& lines);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_LOG_PROTO_H_
