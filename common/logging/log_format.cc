#include "common/logging/log_format.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/text/instant.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f && c != '"' && c != '\\' && c != '=';
  });
}

void AppendQuoted(std::string_view text, std::string& line) {
  line += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (byte < ' ' || byte == 0x7f) {
      absl::StrAppendFormat(&line, "\\x%02x", byte);
    } else {
      line += c;
    }
  }
  line += '"';
}

void AppendText(std::string_view text, std::string& line) {
  if (IsPlain(text)) {
    line += text;
  } else {
    AppendQuoted(text, line);
  }
}

void AppendValue(const LogValue& value, std::string& line) {
  std::visit(
      [&line](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          line += v ? "true" : "false";
        } else if constexpr (std::is_arithmetic_v<T>) {
          absl::StrAppend(&line, v);
        } else {
          AppendText(v, line);
        }
      },
      value.variant());
}

nlohmann::ordered_json ToJson(const LogValue& value) {
  return std::visit(
      [](const auto& v) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>) {
          // JSON has no NaN or infinity; null would hide which it was.
          if (!std::isfinite(v)) return absl::StrCat(v);
        }
        return v;
      },
      value.variant());
}

bool HasKey(std::span<const LogField> fields, std::string_view key) {
  return std::any_of(fields.begin(), fields.end(),
                     [key](const LogField& field) { return field.key == key; });
}

char LevelLetter(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 'D';
    case LogLevel::kInfo:
      return 'I';
    case LogLevel::kWarning:
      return 'W';
    case LogLevel::kError:
      return 'E';
  }
  return '?';
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

void AppendField(const LogField& field, std::string& line) {
  if (!line.empty()) line += ' ';
  line += field.key;
  line += '=';
  AppendValue(field.value, line);
}

void AppendFields(const LogRecord& record, std::string& line) {
  for (const LogField& field : record.context) {
    if (!HasKey(record.fields, field.key)) AppendField(field, line);
  }
  for (const LogField& field : record.fields) AppendField(field, line);
}

}  // namespace

std::string FormatLogText(const LogRecord& record, absl::TimeZone zone) {
  std::string line = absl::StrCat(FormatInstant(record.time, zone), " ");
  line += LevelLetter(record.level);
  if (!record.role.empty()) {
    line += ' ';
    AppendText(record.role, line);
    if (!record.worker.empty()) {
      line += '/';
      AppendText(record.worker, line);
    }
  }
  line += ' ';
  AppendText(record.event, line);
  AppendFields(record, line);
  return line;
}

std::string FormatLogFields(const LogRecord& record) {
  std::string line;
  AppendFields(record, line);
  return line;
}

std::string FormatLogJson(const LogRecord& record) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", record.time,
                                  absl::UTCTimeZone());
  line["level"] = LevelName(record.level);
  if (!record.role.empty()) line["role"] = record.role;
  if (!record.worker.empty()) line["worker"] = record.worker;
  line["event"] = record.event;
  for (const LogField& field : record.context) {
    line[std::string(field.key)] = ToJson(field.value);
  }
  for (const LogField& field : record.fields) {
    line[std::string(field.key)] = ToJson(field.value);
  }
  using Json = nlohmann::ordered_json;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringmaster
