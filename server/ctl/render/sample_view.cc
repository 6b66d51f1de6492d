#include "server/ctl/render/sample_view.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace ringmaster::ctl {
namespace {

constexpr int kMaxFrameWidth = 80;

struct Frame {
  std::string_view corners[4];  // top left, top right, bottom left and right
  std::string_view horizontal;
  std::string_view vertical;
};
constexpr Frame kAsciiFrame = {{"+", "+", "+", "+"}, "-", "|"};
constexpr Frame kUnicodeFrame = {{"┌", "┐", "└", "┘"}, "─", "│"};

std::string Repeat(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all.append(text);
  return all;
}

std::string TextOf(const v1::TextSample& sample) {
  return EscapeControls(absl::StrCat(sample.prompt(), sample.text()));
}

}  // namespace

std::vector<std::string> SampleLines(const v1::TextSample& sample) {
  std::vector<std::string> lines = {
      absl::StrCat("sample after step ", sample.step(), ":")};
  for (const absl::string_view line : absl::StrSplit(TextOf(sample), '\n'))
    lines.emplace_back(line);
  return lines;
}

std::vector<std::string> SampleFrame(const v1::TextSample& sample,
                                     const Style& style, int max_lines) {
  const int width = std::min(style.width, kMaxFrameWidth);
  const int inside = width - 4;
  if (max_lines < 3 || inside < 1) return {};
  std::vector<std::string> text =
      WrapLines(absl::StrReplaceAll(TextOf(sample), {{"\t", "    "}}), inside);
  const auto room = static_cast<size_t>(max_lines - 2);
  if (text.size() > room) {
    text.resize(room);
    text.back() = Fit(style, "...", inside);
  }
  const Frame& frame = style.unicode ? kUnicodeFrame : kAsciiFrame;
  const std::string title = Fit(
      style, absl::StrCat(" sample after step ", sample.step(), " "), inside);
  std::vector<std::string> lines;
  lines.push_back(Repeat(frame.corners[0], 1) + Repeat(frame.horizontal, 1) +
                  title +
                  Repeat(frame.horizontal, width - 3 - DisplayWidth(title)) +
                  Repeat(frame.corners[1], 1));
  for (const std::string& line : text) {
    lines.push_back(Repeat(frame.vertical, 1) + " " + line +
                    Repeat(" ", inside - DisplayWidth(line) + 1) +
                    Repeat(frame.vertical, 1));
  }
  lines.push_back(Repeat(frame.corners[2], 1) +
                  Repeat(frame.horizontal, width - 2) +
                  Repeat(frame.corners[3], 1));
  return lines;
}

}  // namespace ringmaster::ctl
