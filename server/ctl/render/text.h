// Pieces of text that the tables are made of: numbers, durations, bars,
// colours.
//
// Pure: everything depends on the arguments alone, so that whole screens can be
// compared with golden strings.
#ifndef RINGMASTER_SERVER_CTL_RENDER_TEXT_H_
#define RINGMASTER_SERVER_CTL_RENDER_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/text/byte_text.h"

namespace ringmaster::ctl {

// The abilities of the reader's terminal, and where the reader is.
struct Style {
  int width = 80;   // columns
  int height = 24;  // lines
  bool color = false;
  bool unicode = false;  // bars and sparklines beyond ASCII
  absl::TimeZone zone = absl::UTCTimeZone();
};

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// `text` in `color`, or as it is where the style has no colours.
[[nodiscard]] std::string Paint(const Style& style, Color color,
                                std::string_view text);

// `text` with control characters replaced by '?': names and messages come from
// other machines, and must not be able to steer the reader's terminal.
[[nodiscard]] std::string Printable(std::string_view text);

// The same for text whose look matters: newlines and tabs stay, other control
// characters are shown as \xNN.
[[nodiscard]] std::string EscapeControls(std::string_view text);

// The lines of `text`, each cut into pieces of at most `width` (at least 1)
// columns, between words where that is possible.
[[nodiscard]] std::vector<std::string> WrapLines(std::string_view text,
                                                 int width);

// Columns that `text` takes: code points, without our own colour sequences.
[[nodiscard]] int DisplayWidth(std::string_view text);

// `text` in at most `width` columns: where it is cut, it ends in an ellipsis. Colour
// sequences are kept, and reset at the cut.
[[nodiscard]] std::string Fit(const Style& style, std::string_view text,
                              int width);

// "2.310", "0.0123", "1.5e+06", "nan".
[[nodiscard]] std::string FormatLoss(double loss);

// A rate for people: "81234", "7.3", "0.42".
[[nodiscard]] std::string FormatRate(double rate);

// "12%"; a share outside 0..1 is clamped.
[[nodiscard]] std::string FormatPercent(double share);

// Two units at most: "0s", "85us", "3.1ms", "2.4s", "21s", "1m05s", "2h03m",
// "3d04h"; "-" for a negative or infinite one.
[[nodiscard]] std::string HumanDuration(absl::Duration duration);

// The time in `style`'s zone, in the form of common/text/instant.h.
[[nodiscard]] std::string FormatTime(absl::Time time, const Style& style);

// "[#####-----]" of `width` columns, at least 4.
[[nodiscard]] std::string Bar(const Style& style, double share, int width);

// The values (the last `width` of them) as a line of blocks, scaled to the range of all
// but the first eighth, which would flatten the rest where a loss falls; empty where the style has no Unicode or there are fewer than two
// values.
[[nodiscard]] std::string Sparkline(const Style& style,
                                    std::span<const double> values, int width);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_TEXT_H_
