#include "common/logging/log_proto.h"

#include "common/protocol/enum_pairs.h"
#include "common/protocol/proto_time.h"

namespace ringmaster {
namespace {

constexpr EnumPair<v1::LogSeverity, LogLevel> kSeverities[] = {
    {v1::LOG_SEVERITY_DEBUG, LogLevel::kDebug},
    {v1::LOG_SEVERITY_INFO, LogLevel::kInfo},
    {v1::LOG_SEVERITY_WARNING, LogLevel::kWarning},
    {v1::LOG_SEVERITY_ERROR, LogLevel::kError},
};

}  // namespace

LogSelection ToLogSelection(const v1::LogFilter& filter, int64_t after_sequence,
                            size_t max_bytes) {
  LogSelection selection;
  selection.after_sequence = after_sequence;
  selection.least = OwnOf(kSeverities, filter.min_severity());
  if (filter.has_since()) selection.since = FromProto(filter.since());
  selection.tail = filter.tail();
  selection.max_bytes = max_bytes;
  return selection;
}

v1::LogPage ToProto(const LogLines& lines) {
  v1::LogPage page;
  for (const LogLine& line : lines.lines) {
    v1::LogLine& proto = *page.add_lines();
    proto.set_sequence(line.sequence);
    *proto.mutable_time() = ToProto(line.time);
    proto.set_severity(ProtoOf(kSeverities, line.level));
    proto.set_event(line.event);
    proto.set_fields(line.fields);
  }
  page.set_first_held_sequence(lines.first_held_sequence);
  page.set_last_sequence(lines.last_sequence);
  page.set_left_out_count(lines.left_out_count);
  return page;
}

}  // namespace ringmaster
