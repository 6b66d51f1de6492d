#include "common/logging/kept_lines.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace ringmaster {
namespace {

bool IsWanted(const LogLine& line, const LogSelection& selection) {
  return line.sequence > selection.after_sequence &&
         line.level >= selection.least && line.time >= selection.since;
}

}  // namespace

size_t BytesOf(const LogLine& line) {
  // The sequence, the time and the level take it, in memory as in a message.
  constexpr size_t kRest = 32;
  return line.event.size() + line.fields.size() + kRest;
}

void KeptLines::Limit(int max_lines) {
  max_lines_ = static_cast<size_t>(std::max(max_lines, 0));
  DropOldest();
}

void KeptLines::Add(LogLine line) {
  line.sequence = ++last_sequence_;
  line.event = BoundedUtf8(ReplaceInvalidUtf8(line.event), kMaxFieldBytes);
  line.fields = BoundedUtf8(ReplaceInvalidUtf8(line.fields), kMaxFieldBytes);
  bytes_ += BytesOf(line);
  lines_.push_back(std::move(line));
  DropOldest();
}

void KeptLines::DropOldest() {
  while (!lines_.empty() &&
         (lines_.size() > max_lines_ || bytes_ > max_lines_ * kBytesPerLine)) {
    bytes_ -= BytesOf(lines_.front());
    lines_.pop_front();
  }
}

LogLines KeptLines::Select(const LogSelection& selection) const {
  LogLines found;
  found.last_sequence = last_sequence_;
  if (!lines_.empty()) found.first_held_sequence = lines_.front().sequence;
  size_t bytes = 0;
  int64_t wanted = 0;
  bool is_full = false;
  for (auto it = lines_.rbegin(); it != lines_.rend(); ++it) {
    if (!IsWanted(*it, selection)) continue;
    if (selection.tail > 0 && wanted == selection.tail) break;
    ++wanted;
    bytes += BytesOf(*it);
    is_full = is_full || bytes > selection.max_bytes;
    if (is_full) {
      ++found.left_out_count;
    } else {
      found.lines.push_back(*it);
    }
  }
  std::reverse(found.lines.begin(), found.lines.end());
  return found;
}

}  // namespace ringmaster
