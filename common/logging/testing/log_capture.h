// LogCapture: keeps the lines that the process logs while it lives, for tests.
//
// One at a time. Thread-safe.
#ifndef RINGMASTER_COMMON_LOGGING_TESTING_LOG_CAPTURE_H_
#define RINGMASTER_COMMON_LOGGING_TESTING_LOG_CAPTURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/logging/logging.h"
#include "common/sync/mutex.h"

namespace ringmaster {

class LogCapture final : private LogSink {
 public:
  LogCapture() { SetLogSink(this); }
  ~LogCapture() override { SetLogSink(nullptr); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  [[nodiscard]] std::vector<std::string> lines() const {
    MutexLock lock(mutex_);
    return lines_;
  }

  // Returns true if some line contains `text`.
  [[nodiscard]] bool Contains(std::string_view text) const {
    MutexLock lock(mutex_);
    for (const std::string& line : lines_) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

 private:
  void Write(std::string_view line) override {
    MutexLock lock(mutex_);
    lines_.emplace_back(line);
  }

  mutable Mutex mutex_;
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_TESTING_LOG_CAPTURE_H_
