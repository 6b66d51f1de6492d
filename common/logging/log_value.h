// LogValue and LogField: a `key=value` pair of a log line.
//
// A LogValue that is made from text only refers to it: use it inside the call
// of LogEvent, do not keep it.
#ifndef RINGMASTER_COMMON_LOGGING_LOG_VALUE_H_
#define RINGMASTER_COMMON_LOGGING_LOG_VALUE_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ringmaster {

class LogValue {
 public:
  LogValue(bool value) : value_(value) {}
  template <std::signed_integral T>
  LogValue(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogValue(T value)
      : value_(static_cast<uint64_t>(value)) {}
  LogValue(double value) : value_(value) {}
  LogValue(const char* text) : value_(std::string_view(text)) {}
  LogValue(const std::string& text) : value_(std::string_view(text)) {}
  LogValue(std::string_view text) : value_(text) {}
  LogValue(absl::string_view text)
      : value_(std::string_view(text.data(), text.size())) {}
  // As 1.5s, 300ms.
  LogValue(absl::Duration duration) : value_(absl::FormatDuration(duration)) {}
  // As CODE: message.
  LogValue(const absl::Status& status) : value_(status.ToString()) {}

  using Variant = std::variant<bool, int64_t, uint64_t, double,
                               std::string_view, std::string>;
  [[nodiscard]] const Variant& variant() const { return value_; }

 private:
  Variant value_;
};

struct LogField {
  std::string_view key;  // lower_snake
  LogValue value;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_LOGGING_LOG_VALUE_H_
