// Logging: one line for each event, readable for people and easy to parse for
// programs.
//
//   2026-01-02T12:03:04.123+00:00 I coordinator job.started generation=3 ranks=4
//
// Text: local time with its offset (common/text/instant.h), level (D I W E), role or role/worker, event, context,
// fields. A value with a space, quote, `=`, control character or nothing in it
// is quoted and escaped, so that an event is always one line. JSON: one object
// a line with the same keys, `time` in RFC 3339 and UTC.
//
// Before InitLogging, lines go to stderr as text from level info on.
// Thread-safe. Never call LogEvent while holding a lock: writing may block.
// Log an error once, where it is handled.
//
// Example:
//   LogEvent(LogLevel::kInfo, "job.started", {{"job", name}, {"ranks", 4}});
#ifndef RINGMASTER_COMMON_LOGGING_LOGGING_H_
#define RINGMASTER_COMMON_LOGGING_LOGGING_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/logging/log_value.h"

namespace ringmaster {

enum class LogLevel {
  kDebug,    // for debugging Ringmaster
  kInfo,     // what happened, in normal operation
  kWarning,  // went wrong and was handled
  kError,    // went wrong and needs somebody
};

enum class LogFormat { kText, kJson };

inline constexpr int kDefaultKeptLogLines = 2000;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  // Appended to beside stderr; "" for none. Rotated once it has file_max_bytes
  // (0: never), and file_max_rotated full ones are kept: see LogFile.
  std::string file = {};
  int64_t file_max_bytes = 0;
  int file_max_rotated = 1;
  // Lines kept in memory, for SelectLog: see KeptLines.
  int kept_lines = kDefaultKeptLogLines;
};

// The values of --log_level (debug, info, warning, error) and --log_format
// (text, json). INVALID_ARGUMENT lists them.
[[nodiscard]] absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text);
[[nodiscard]] absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text);

// Sets level, format and sinks of the process. INVALID_ARGUMENT: the file
// cannot be opened; nothing changes then.
[[nodiscard]] absl::Status InitLogging(const LogOptions& options);

// Goes on in the file that has the name of the log's file now, or in a new one:
// for programs like logrotate, which have renamed the old one. UNAVAILABLE if
// that fails; the old one has the lines then.
[[nodiscard]] absl::Status ReopenLogFile();

// Writes one line to every sink, and flushes it. `event` is a literal, dotted
// by area: `job.started`.
void LogEvent(LogLevel level, std::string_view event,
              std::initializer_list<LogField> fields = {});

// Returns false if LogEvent would drop an event of `level`, so that callers can
// skip preparing its fields.
[[nodiscard]] bool IsLogged(LogLevel level);

// A line as it is kept in memory, whatever the format of those written.
struct LogLine {
  int64_t sequence = 0;  // rises by one with each line of the process, from 1
  absl::Time time;
  LogLevel level = LogLevel::kInfo;
  std::string event;
  std::string fields;  // "rank=2 job=words"
};

// Which lines. The newest win where there are too many.
struct LogSelection {
  int64_t after_sequence = 0;
  LogLevel least = LogLevel::kDebug;
  absl::Time since = absl::InfinitePast();
  int64_t tail = 0;  // at most so many; 0: all
  size_t max_bytes = SIZE_MAX;
};

struct LogLines {
  std::vector<LogLine> lines;       // oldest first
  int64_t first_held_sequence = 0;  // wanted or not; 0: none is held
  int64_t last_sequence = 0;        // of the last line that was logged
  int64_t left_out_count = 0;       // wanted, but beyond max_bytes
};

// Bytes that a line counts for in a limit.
[[nodiscard]] size_t BytesOf(const LogLine& line);

// Selects among the last lines of this process.
[[nodiscard]] LogLines SelectLog(const LogSelection& selection);

// Sets the context that every later line carries. A field of the event replaces
// one of the context with the same key.
void SetLogIdentity(std::string_view role, std::string_view worker);
void SetLogRank(std::optional<int> rank);
void SetLogGeneration(std::optional<int64_t> generation);
void SetLogStep(std::optional<int64_t> step);

// The destination of lines; for tests and for programs with a screen of their
// own.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // `line` has no line feed. Called by one thread at a time; must not log.
  virtual void Write(std::string_view line) = 0;
};

// Sends lines to `sink` instead of stderr and the file, or to those again if it
// is null. The sink must outlive its use: once this returns, the former sink is
// not called any more.
void SetLogSink(LogSink* sink);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_LOGGING_H_
