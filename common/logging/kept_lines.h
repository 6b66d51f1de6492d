// KeptLines keeps the last lines of a log in memory, a bounded number of bounded
// size.
//
// Thread-compatible; knows no clock.
#ifndef RINGMASTER_COMMON_LOGGING_KEPT_LINES_H_
#define RINGMASTER_COMMON_LOGGING_KEPT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/logging/logging.h"

namespace ringmaster {

class KeptLines {
 public:
  // Average bytes that a line may take: max_lines lines take no more than so
  // many times that number.
  static constexpr size_t kBytesPerLine = 128;
  // A longer field is cut.
  static constexpr size_t kMaxFieldBytes = 4096;

  explicit KeptLines(int max_lines) { Limit(max_lines); }

  // Drops the oldest lines beyond the new limit. 0 keeps none.
  void Limit(int max_lines);

  // Gives `line` its sequence, and keeps it.
  void Add(LogLine line);

  [[nodiscard]] LogLines Select(const LogSelection& selection) const;

 private:
  void DropOldest();

  size_t max_lines_ = 0;
  size_t bytes_ = 0;
  int64_t last_sequence_ = 0;
  std::deque<LogLine> lines_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_KEPT_LINES_H_
