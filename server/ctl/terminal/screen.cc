#include "server/ctl/terminal/screen.h"

#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {
namespace {

constexpr char kHideCursor[] = "\x1b[?25l";
constexpr char kClearToLineEnd[] = "\x1b[K";
constexpr char kClearToScreenEnd[] = "\x1b[J";

std::string Up(size_t lines) {
  return lines == 0 ? "\r" : absl::StrCat("\r\x1b[", lines, "A");
}

}  // namespace

void Screen::Draw(const std::vector<std::string>& lines) {
  // One write for all of it, and no clearing ahead of the text: otherwise it
  // flickers.
  std::string text;
  if (!is_cursor_hidden_) text.append(kHideCursor);
  is_cursor_hidden_ = true;
  text.append(Up(drawn_.size()));
  for (const std::string& line : lines)
    absl::StrAppend(&text, line, kClearToLineEnd, "\n");
  text.append(kClearToScreenEnd);
  console_.Write(text);
  drawn_ = lines;
}

void Screen::PrintAbove(std::string_view line) {
  std::string text =
      absl::StrCat(Up(drawn_.size()), kClearToScreenEnd,
                   absl::string_view(line.data(), line.size()), "\n");
  for (const std::string& below : drawn_) absl::StrAppend(&text, below, "\n");
  console_.Write(text);
}

void Screen::Finish() {
  if (is_cursor_hidden_) console_.Write(kShowCursor);
  is_cursor_hidden_ = false;
  drawn_.clear();
}

}  // namespace ringmaster::ctl
