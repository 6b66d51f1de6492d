#include "server/ctl/render/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/text/instant.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kReset = "\x1b[0m";

std::string_view Sequence(Color color) {
  switch (color) {
    case Color::kNone:
      return "";
    case Color::kBold:
      return "\x1b[1m";
    case Color::kDim:
      return "\x1b[2m";
    case Color::kRed:
      return "\x1b[31m";
    case Color::kGreen:
      return "\x1b[32m";
    case Color::kYellow:
      return "\x1b[33m";
    case Color::kCyan:
      return "\x1b[36m";
  }
  return "";
}

// Bytes of the unit of text at the start of `text` (not empty): a whole colour
// sequence, or one code point. `columns` tells how much room it takes.
size_t NextUnit(std::string_view text, int* columns) {
  if (text[0] == '\x1b') {
    *columns = 0;
    const size_t end = text.find('m');
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  *columns = 1;
  size_t size = 1;
  while (size < text.size() &&
         (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
    ++size;
  return size;
}

}  // namespace

std::string Paint(const Style& style, Color color, std::string_view text) {
  std::string painted(text);
  if (style.color && color != Color::kNone) {
    painted.insert(0, Sequence(color));
    painted.append(kReset);
  }
  return painted;
}

std::string Printable(std::string_view text) {
  std::string clean(text);
  for (size_t i = 0; i < clean.size(); ++i) {
    const auto byte = static_cast<unsigned char>(clean[i]);
    if (byte < 0x20 || byte == 0x7F) clean[i] = '?';
    // U+0080 to U+009F, the second set of control characters, in UTF-8.
    if (byte == 0xC2 && i + 1 < clean.size() &&
        (static_cast<unsigned char>(clean[i + 1]) & 0xE0) == 0x80) {
      clean.replace(i, 2, "?");
    }
  }
  return clean;
}

std::string EscapeControls(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, the second set of control characters, in UTF-8.
    const bool is_second_set =
        byte == 0xC2 && i + 1 < text.size() &&
        (static_cast<unsigned char>(text[i + 1]) & 0xE0) == 0x80;
    const bool is_first_set =
        (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (is_second_set) byte = static_cast<unsigned char>(text[++i]);
    if (is_first_set || is_second_set) {
      absl::StrAppendFormat(&clean, "\\x%02x", byte);
    } else {
      clean.push_back(text[i]);
    }
  }
  return clean;
}

std::vector<std::string> WrapLines(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  int used = 0;
  while (!text.empty()) {
    int columns = 0;
    const std::string_view unit = text.substr(0, NextUnit(text, &columns));
    text.remove_prefix(unit.size());
    if (unit == "\n") {
      lines.emplace_back();
      used = 0;
      continue;
    }
    if (used + columns > width) {
      if (unit == " ") {  // the cut stands for it
        lines.emplace_back();
        used = 0;
        continue;
      }
      // The word that does not fit goes on to the next line whole, if there is
      // something before it.
      const size_t space = lines.back().rfind(' ');
      std::string word;
      if (space != std::string::npos) {
        word = lines.back().substr(space + 1);
        lines.back().resize(space);
      }
      used = DisplayWidth(word);
      lines.push_back(std::move(word));
    }
    lines.back().append(unit);
    used += columns;
  }
  return lines;
}

int DisplayWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    int columns = 0;
    text.remove_prefix(NextUnit(text, &columns));
    width += columns;
  }
  return width;
}

std::string Fit(const Style& style, std::string_view text, int width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const std::string ellipsis =
      style.unicode && width > 0
          ? "…"
          : std::string(static_cast<size_t>(std::clamp(width, 0, 3)), '.');
  width -= DisplayWidth(ellipsis);
  std::string kept;
  int used = 0;
  bool colored = false;
  while (!text.empty()) {
    int columns = 0;
    const size_t size = NextUnit(text, &columns);
    if (used + columns > width) break;
    if (columns == 0) colored = text.substr(0, size) != kReset;
    kept.append(text.substr(0, size));
    used += columns;
    text.remove_prefix(size);
  }
  kept.append(ellipsis);
  if (colored) kept.append(kReset);
  return kept;
}

std::string FormatLoss(double loss) {
  if (std::isnan(loss)) return "nan";
  const double magnitude = std::abs(loss);
  if (loss == 0 || (magnitude >= 0.1 && magnitude < 10000))
    return absl::StrFormat("%.3f", loss);
  return absl::StrFormat("%.3g", loss);
}

std::string FormatRate(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "-";
  if (rate >= 100) return absl::StrFormat("%.0f", rate);
  if (rate >= 1) return absl::StrFormat("%.1f", rate);
  return absl::StrFormat("%.2f", rate);
}

std::string FormatPercent(double share) {
  if (std::isnan(share)) return "-";
  return absl::StrFormat("%.0f%%", 100 * std::clamp(share, 0.0, 1.0));
}

std::string HumanDuration(absl::Duration duration) {
  if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration())
    return "-";
  if (duration == absl::ZeroDuration()) return "0s";
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 999.5e-6) return absl::StrFormat("%.0fus", seconds * 1e6);
  if (seconds < 99.95e-3) return absl::StrFormat("%.1fms", seconds * 1e3);
  if (seconds < 0.9995) return absl::StrFormat("%.0fms", seconds * 1e3);
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  if (seconds < 59.5) return absl::StrFormat("%.0fs", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 86400)
    return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd%02dh", whole / 86400, whole % 86400 / 3600);
}

std::string FormatTime(absl::Time time, const Style& style) {
  return FormatInstant(time, style.zone);
}

std::string Bar(const Style& style, double share, int width) {
  const int inside = std::max(width, 4) - 2;
  const double clamped =
      std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const int full = static_cast<int>(std::floor(clamped * inside));
  std::string bar = "[";
  for (int i = 0; i < inside; ++i) {
    if (style.unicode) {
      bar.append(i < full ? "█" : "░");
    } else {
      bar.append(i < full ? "#" : "-");
    }
  }
  return bar + "]";
}

std::string Sparkline(const Style& style, std::span<const double> values,
                      int width) {
  static constexpr std::array<std::string_view, 8> kBlocks = {
      "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!style.unicode || width < 1 || values.size() < 2) return "";
  if (values.size() > static_cast<size_t>(width))
    values = values.last(static_cast<size_t>(width));
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  for (const double value : values.subspan((values.size() + 4) / 8)) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line.append("x");
      continue;
    }
    const double height =
        high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
    line.append(kBlocks[std::min<size_t>(
        static_cast<size_t>(height * kBlocks.size()), kBlocks.size() - 1)]);
  }
  return line;
}

}  // namespace ringmaster::ctl
