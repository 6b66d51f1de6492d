#include "server/ctl/render/output_line.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// Takes a quoted value, as common/logging writes it, from the front of `text`,
// which begins behind the first quote.
std::string TakeQuoted(std::string_view& text) {
  std::string value;
  size_t at = 0;
  while (at < text.size() && text[at] != '"') {
    if (text[at] != '\\' || at + 1 == text.size()) {
      value += text[at++];
      continue;
    }
    const char escaped = text[at + 1];
    at += 2;
    uint32_t byte = 0;
    if (escaped == 'x' &&
        absl::SimpleHexAtoi(std::string(text.substr(at, 2)), &byte)) {
      value += static_cast<char>(byte);
      at += 2;
    } else {
      value += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    }
  }
  text.remove_prefix(std::min(at + 1, text.size()));
  return value;
}

std::map<std::string, std::string> FieldsOf(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (true) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return fields;
    const std::string key(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    if (!text.empty() && text.front() == '"') {
      text.remove_prefix(1);
      fields[key] = TakeQuoted(text);
    } else {
      const size_t end = std::min(text.find(' '), text.size());
      fields[key] = std::string(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (!text.empty()) text.remove_prefix(1);  // the space
  }
}

}  // namespace

std::optional<OutputLine> ParseOutputLine(const v1::LogLine& line) {
  const bool is_error = line.event() == "command.stderr";
  if (!is_error && line.event() != "command.stdout") return std::nullopt;
  std::map<std::string, std::string> fields = FieldsOf(line.fields());
  OutputLine output{
      .job = fields["job"], .is_error = is_error, .text = fields["text"]};
  if (!absl::SimpleAtoi(fields["rank"], &output.rank)) return std::nullopt;
  return output;
}

std::string ToText(const OutputLine& line) {
  return absl::StrCat("[", line.rank, "] ", Printable(line.text));
}

}  // namespace ringmaster::ctl
