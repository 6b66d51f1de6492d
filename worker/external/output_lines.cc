#include "worker/external/output_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

void LineCutter::Take(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') {
      on_line_(line_);
      line_.clear();
      is_returned_ = false;
      continue;
    }
    if (byte == '\r') {
      is_returned_ = true;
      continue;
    }
    if (is_returned_) line_.clear();
    is_returned_ = false;
    line_ += byte;
    if (line_.size() < kMaxLineBytes) continue;
    on_line_(line_);
    line_.clear();
  }
}

void LineCutter::Finish() {
  if (!line_.empty()) on_line_(line_);
  line_.clear();
  is_returned_ = false;
}

void LastWords::Add(std::string_view line) {
  const absl::string_view text = absl::StripTrailingAsciiWhitespace(
      absl::string_view(line.data(), line.size()));
  if (text.empty()) return;
  lines_.emplace_back(text);
  if (lines_.size() > kMostLines) lines_.pop_front();
}

std::string LastWords::Text() const {
  if (lines_.empty()) return "";
  std::string text(absl::StripLeadingAsciiWhitespace(lines_.back()));
  const auto frame =
      std::find_if(lines_.rbegin(), lines_.rend(), [](const std::string& line) {
        return absl::StartsWith(line, "  File \"");
      });
  if (text.size() > kMaxTextBytes) {
    text.resize(kMaxTextBytes);
    text += "...";
  }
  if (frame == lines_.rend()) return text;
  return absl::StrCat(
      text, " (",
      absl::StripLeadingAsciiWhitespace(*frame).substr(0, kMaxTextBytes), ")");
}

}  // namespace ringmaster
