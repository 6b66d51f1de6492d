#include "worker/external/output_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace ringmaster {
namespace {

// A command prints any bytes, but protobuf refuses a text that is no UTF-8.
std::string Shown(const std::string& line) {
  return ReplaceInvalidUtf8(
      std::string(absl::StripLeadingAsciiWhitespace(line)));
}

}  // namespace

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
  const std::string last = Shown(lines_.back());
  const auto frame =
      std::find_if(lines_.rbegin(), lines_.rend(), [](const std::string& line) {
        return absl::StartsWith(line, "  File \"");
      });
  std::string text = BoundedUtf8(last, kMaxTextBytes);
  if (text.size() < last.size()) text += "...";
  if (frame == lines_.rend()) return text;
  return absl::StrCat(text, " (", BoundedUtf8(Shown(*frame), kMaxTextBytes),
                      ")");
}

}  // namespace ringmaster
