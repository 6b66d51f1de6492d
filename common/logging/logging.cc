#include "common/logging/logging.h"

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/logging/kept_lines.h"
#include "common/logging/log_file.h"
#include "common/logging/log_format.h"
#include "common/status/annotate.h"
#include "common/sync/mutex.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace ringmaster {
namespace {

constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

// Lines reach spdlog already formatted: it gives us sinks that are thread-safe
// and survive a full disk.
std::shared_ptr<spdlog::logger> MakeLogger(
    std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>("ringmaster", sinks.begin(),
                                                 sinks.end());
  logger->set_pattern("%v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// spdlog makes the calls one at a time.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(LogFile file) : file_(std::move(file)) {}

  absl::Status Reopen() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return file_.Reopen();
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const absl::Status status = file_.Append({line.data(), line.size()});
    // spdlog reports it on stderr, once a second at most.
    if (!status.ok()) throw spdlog::spdlog_ex(std::string(status.message()));
  }
  void flush_() override {}

  LogFile file_;
};

struct Identity {
  std::string role;
  std::string worker;
};

// The process's log: its level, format, context and sinks.
class Log {
 public:
  // Never destroyed: threads may log until the process ends.
  static Log& Get() {
    static Log* const log = new Log;
    return *log;
  }

  [[nodiscard]] bool IsLogged(LogLevel level) const {
    return level >= level_.load(std::memory_order_relaxed);
  }

  absl::Status Init(const LogOptions& options) {
    std::vector<spdlog::sink_ptr> sinks = {
        std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    std::shared_ptr<FileSink> file_sink;
    if (!options.file.empty()) {
      absl::StatusOr<LogFile> file = LogFile::Open(
          {options.file, options.file_max_bytes, options.file_max_rotated});
      if (!file.ok()) return Annotate(file.status(), "--log_file");
      file_sink = std::make_shared<FileSink>(*std::move(file));
      sinks.push_back(file_sink);
    }
    std::shared_ptr<spdlog::logger> logger = MakeLogger(std::move(sinks));
    MutexLock lock(mutex_);
    logger_ = std::move(logger);
    file_sink_ = std::move(file_sink);
    level_.store(options.level, std::memory_order_relaxed);
    format_.store(options.format, std::memory_order_relaxed);
    MutexLock kept_lock(kept_mutex_);
    kept_.Limit(options.kept_lines);
    return absl::OkStatus();
  }

  absl::Status ReopenFile() {
    std::shared_ptr<FileSink> file_sink;
    {
      MutexLock lock(mutex_);
      file_sink = file_sink_;
    }
    return file_sink == nullptr ? absl::OkStatus() : file_sink->Reopen();
  }

  void SetIdentity(std::string_view role, std::string_view worker) {
    auto identity = std::make_shared<const Identity>(
        Identity{std::string(role), std::string(worker)});
    MutexLock lock(mutex_);
    identity_ = std::move(identity);
  }

  void SetSink(LogSink* sink) {
    // After the lock, no Write of the former sink is under way.
    MutexLock lock(sink_mutex_);
    sink_ = sink;
  }

  void Write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields) {
    std::shared_ptr<spdlog::logger> logger;
    std::shared_ptr<const Identity> identity;
    {
      MutexLock lock(mutex_);
      logger = logger_;
      identity = identity_;
    }
    const std::string line = FormatAndKeep(level, event, fields, *identity);
    if (!WriteToSink(line)) {
      logger->log(spdlog::level::info, spdlog::string_view_t(line));
    }
  }

  LogLines Select(const LogSelection& selection) {
    MutexLock lock(kept_mutex_);
    return kept_.Select(selection);
  }

  std::atomic<int64_t> rank{kUnset};
  std::atomic<int64_t> generation{kUnset};
  std::atomic<int64_t> step{kUnset};

 private:
  std::string FormatAndKeep(LogLevel level, std::string_view event,
                            std::initializer_list<LogField> fields,
                            const Identity& identity) {
    std::vector<LogField> context;
    const auto add = [&context](std::string_view key,
                                const std::atomic<int64_t>& value) {
      const int64_t now = value.load(std::memory_order_relaxed);
      if (now != kUnset) context.push_back({key, now});
    };
    add("rank", rank);
    add("generation", generation);
    add("step", step);
    const LogRecord record = {.time = absl::Now(),
                              .level = level,
                              .role = identity.role,
                              .worker = identity.worker,
                              .event = event,
                              .context = context,
                              .fields = fields};
    Keep(record);
    return format_.load(std::memory_order_relaxed) == LogFormat::kJson
               ? FormatLogJson(record)
               : FormatLogText(record, absl::LocalTimeZone());
  }

  void Keep(const LogRecord& record) {
    LogLine line = {.sequence = 0,
                    .time = record.time,
                    .level = record.level,
                    .event = std::string(record.event),
                    .fields = FormatLogFields(record)};
    MutexLock lock(kept_mutex_);
    kept_.Add(std::move(line));
  }

  // The lock is the sink's own, as a sink of spdlog has one: it makes its
  // writes one at a time and is taken for nothing else.
  bool WriteToSink(std::string_view line) {
    MutexLock lock(sink_mutex_);
    if (sink_ == nullptr) return false;
    sink_->Write(line);
    return true;
  }

  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::atomic<LogFormat> format_{LogFormat::kText};

  Mutex mutex_;
  std::shared_ptr<spdlog::logger> logger_ GUARDED_BY(mutex_) =
      MakeLogger({std::make_shared<spdlog::sinks::stderr_sink_mt>()});
  // One of the logger's; null without a file.
  std::shared_ptr<FileSink> file_sink_ GUARDED_BY(mutex_);
  std::shared_ptr<const Identity> identity_ GUARDED_BY(mutex_) =
      std::make_shared<const Identity>();

  Mutex kept_mutex_ ACQUIRED_AFTER(mutex_);
  KeptLines kept_ GUARDED_BY(kept_mutex_){kDefaultKeptLogLines};

  Mutex sink_mutex_;
  LogSink* sink_ GUARDED_BY(sink_mutex_) = nullptr;
};

// `text` as one of `names`, which stand for the values 0, 1, 2, ...
template <typename Enum, size_t n>
absl::StatusOr<Enum> ParseName(std::string_view flag, std::string_view text,
                               const std::array<std::string_view, n>& names) {
  std::string known;
  for (size_t i = 0; i < n; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    if (i > 0) known += ", ";
    known += names[i];
  }
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(flag), "=", std::string(text), ": must be one of ", known));
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "debug", "info", "warning", "error"};
  return ParseName<LogLevel>("--log_level", text, kNames);
}

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text) {
  static constexpr std::array<std::string_view, 2> kNames = {"text", "json"};
  return ParseName<LogFormat>("--log_format", text, kNames);
}

absl::Status InitLogging(const LogOptions& options) {
  return Log::Get().Init(options);
}

absl::Status ReopenLogFile() { return Log::Get().ReopenFile(); }

void LogEvent(LogLevel level, std::string_view event,
              std::initializer_list<LogField> fields) {
  if (IsLogged(level)) Log::Get().Write(level, event, fields);
}

bool IsLogged(LogLevel level) { return Log::Get().IsLogged(level); }

LogLines SelectLog(const LogSelection& selection) {
  return Log::Get().Select(selection);
}

void SetLogIdentity(std::string_view role, std::string_view worker) {
  Log::Get().SetIdentity(role, worker);
}

void SetLogRank(std::optional<int> rank) {
  Log::Get().rank.store(rank.has_value() ? *rank : kUnset,
                        std::memory_order_relaxed);
}

void SetLogGeneration(std::optional<int64_t> generation) {
  Log::Get().generation.store(generation.value_or(kUnset),
                              std::memory_order_relaxed);
}

void SetLogStep(std::optional<int64_t> step) {
  Log::Get().step.store(step.value_or(kUnset), std::memory_order_relaxed);
}

void SetLogSink(LogSink* sink) { Log::Get().SetSink(sink); }

}  // namespace ringmaster
