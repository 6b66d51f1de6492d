#include "server/ctl/compare/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/ctl/compare/chart_axis.h"

namespace ringmaster::ctl {
namespace {

// The drawing, in pixels.
constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kLeft = 74;
constexpr double kTop = 46;
constexpr double kRight = 580;  // labels of lines are beside it
constexpr double kBottom = 318;
constexpr double kLabelHeight = 18;
constexpr double kTickDistance = 20;  // of two that have labels, at least
constexpr double kLetterWidth = 6.5;  // about
// The bars, which lie: their labels are long, and there may be many.
constexpr double kBarLeft = 210;
constexpr double kBarRight = 730;
constexpr double kBarHeight = 15;
constexpr double kBarPitch = 21;
constexpr int kColors = 8;

// A picture that is shown narrow, on a phone or in half a page, has larger
// letters beside its smaller lines.
// Colours that are told apart also by who does not tell red from green (Okabe
// and Ito, 2008), darker or lighter for the background.
constexpr std::string_view kStyle = R"(<style>
.rm{--bg:#ffffff;--fg:#1f2328;--soft:#59636e;--grid:#d8dee4;--c0:#0068ad;--c1:#c24e00;--c2:#00805c;--c3:#a03c7c;--c4:#8a6d00;--c5:#2a84b8;--c6:#555f69;--c7:#7a3fd1}
@media(prefers-color-scheme:dark){.rm{--bg:#0d1117;--fg:#e6edf3;--soft:#9198a1;--grid:#30363d;--c0:#58a6ff;--c1:#ff9b52;--c2:#3fce9b;--c3:#f08fc9;--c4:#e3c341;--c5:#79d0f5;--c6:#b1bac4;--c7:#b794ff}}
.rm text{font:12px system-ui,sans-serif;fill:var(--fg)}.rm .t{font-size:15px;font-weight:600}.rm .s{fill:var(--soft)}
@media(max-width:520px){.rm text{font-size:18px}.rm .t{font-size:21px}}
.rm .g{stroke:var(--grid);stroke-width:1}.rm .l{fill:none;stroke-width:2}.rm .d{stroke-dasharray:5 4}.rm .r{stroke-width:1.5}
</style>)";

std::string Number(double value) { return absl::StrFormat("%.1f", value); }

std::string Color(int index) {
  return absl::StrCat("var(--c", ((index % kColors) + kColors) % kColors, ")");
}

std::string Text(double x, double y, std::string_view anchor,
                 std::string_view kind, std::string_view text,
                 std::string_view more = "") {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\"%s>%s"
      "</text>\n",
      x, y, std::string(anchor), std::string(kind), std::string(more),
      XmlText(text));
}

std::string Head(std::string_view title, double height) {
  return absl::StrCat(
      "<svg class=\"rm\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
      kWidth, " ", height, "\" width=\"", kWidth, "\" height=\"", height,
      "\" role=\"img\">\n<title>", XmlText(title), "</title>\n",
      std::string(kStyle), "\n<rect width=\"100%\" height=\"100%\" ",
      "fill=\"var(--bg)\"/>\n", Text(kLeft, 24, "start", "t", title));
}

std::string YAxis(const ChartAxis& axis, std::string_view label) {
  std::string svg;
  for (const double tick : axis.ticks()) {
    const double y = axis.At(tick, kBottom, kTop);
    absl::StrAppend(&svg, "<line class=\"g\" x1=\"", kLeft, "\" x2=\"", kRight,
                    "\" y1=\"", Number(y), "\" y2=\"", Number(y), "\"/>\n",
                    Text(kLeft - 8, y + 4, "end", "s", AxisNumber(tick)));
  }
  const double middle = (kTop + kBottom) / 2;
  absl::StrAppend(
      &svg,
      Text(18, middle, "middle", "s", label,
           absl::StrFormat(" transform=\"rotate(-90 18 %.1f)\"", middle)));
  return svg;
}

std::string XAxis(const ChartAxis& axis, const std::set<double>& own_ticks,
                  std::string_view label) {
  std::string svg;
  double labelled = -kTickDistance;
  const auto add = [&](double tick) {
    const double x = axis.At(tick, kLeft, kRight);
    absl::StrAppend(&svg, "<line class=\"g\" x1=\"", Number(x), "\" x2=\"",
                    Number(x), "\" y1=\"", kBottom, "\" y2=\"", kBottom + 5,
                    "\"/>\n");
    if (x - labelled < kTickDistance) return;
    labelled = x;
    svg += Text(x, kBottom + 19, "middle", "s", AxisNumber(tick));
  };
  if (own_ticks.empty()) {
    for (const double tick : axis.ticks()) add(tick);
  } else {
    for (const double tick : own_ticks) add(tick);
  }
  absl::StrAppend(
      &svg, Text((kLeft + kRight) / 2, kBottom + 42, "middle", "s", label));
  return svg;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool is_empty() const { return low > high; }
};

struct Axes {
  ChartAxis x;
  ChartAxis y;
};

Axes AxesOf(const LineChart& chart) {
  Range x;
  Range y;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if ((chart.is_x_log && point.x <= 0) || (chart.is_y_log && point.y <= 0))
        continue;
      x.Take(point.x);
      y.Take(point.y);
      if (!chart.is_y_log) {
        y.Take(point.low);
        y.Take(point.high);
      }
    }
  }
  if (x.is_empty()) x = {1, 2};
  if (y.is_empty()) y = {1, 2};
  if (!chart.is_y_log && chart.starts_at_zero) y.Take(0);
  return {ChartAxis::Covering(x.low, x.high,
                              chart.is_x_log ? ChartAxis::Scale::kLog2
                                             : ChartAxis::Scale::kLinear),
          ChartAxis::Covering(y.low, y.high,
                              chart.is_y_log ? ChartAxis::Scale::kLog10
                                             : ChartAxis::Scale::kLinear)};
}

// A label beside the end of a line.
struct EndLabel {
  std::string text;
  int color = 0;
  double y = 0;
};

// From the least to the most of what was repeated.
std::string RangeSvg(double x1, double y1, double x2, double y2,
                     std::string_view color) {
  return absl::StrFormat(
      "<line class=\"r\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
      "stroke=\"%s\"/>\n",
      x1, y1, x2, y2, std::string(color));
}

std::string SeriesSvg(const ChartSeries& series, const Axes& axes,
                      std::vector<EndLabel>& labels) {
  std::string path;
  std::string dots;
  double last = 0;
  for (const ChartPoint& point : series.points) {
    if (!axes.x.Takes(point.x) || !axes.y.Takes(point.y)) continue;
    const double x = axes.x.At(point.x, kLeft, kRight);
    last = axes.y.At(point.y, kBottom, kTop);
    absl::StrAppend(&path, path.empty() ? "M" : "L", Number(x), " ",
                    Number(last));
    if (point.low < point.high && axes.y.Takes(point.low) &&
        axes.y.Takes(point.high)) {
      dots +=
          RangeSvg(x, axes.y.At(point.low, kBottom, kTop), x,
                   axes.y.At(point.high, kBottom, kTop), Color(series.color));
    }
    if (series.has_markers) {
      absl::StrAppend(&dots, "<circle r=\"3.5\" cx=\"", Number(x), "\" cy=\"",
                      Number(last), "\" fill=\"", Color(series.color),
                      "\"><title>", XmlText(series.label), ": ",
                      AxisNumber(point.x), ", ", AxisNumber(point.y),
                      "</title></circle>\n");
    }
  }
  if (path.empty()) return "";
  if (!series.label.empty())
    labels.push_back({series.label, series.color, last});
  return absl::StrCat("<path class=\"l", series.is_dashed ? " d" : "",
                      "\" stroke=\"", Color(series.color), "\" d=\"", path,
                      "\"/>\n", dots);
}

// Moves labels apart, and draws them.
std::string LabelsSvg(std::vector<EndLabel> labels) {
  std::sort(labels.begin(), labels.end(),
            [](const EndLabel& a, const EndLabel& b) { return a.y < b.y; });
  double lowest = kTop - kLabelHeight;
  for (EndLabel& label : labels) {
    label.y = std::max(label.y, lowest + kLabelHeight);
    lowest = label.y;
  }
  // Those that were pushed over the edge push back.
  double limit = kBottom + kLabelHeight;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, limit - kLabelHeight);
    limit = label->y;
  }
  std::string svg;
  for (const EndLabel& label : labels) {
    absl::StrAppend(
        &svg, Text(kRight + 8, label.y + 4, "start", "", label.text,
                   absl::StrCat(" style=\"fill:", Color(label.color), "\"")));
  }
  return svg;
}

double SumOf(const Bar& bar) {
  double sum = 0;
  for (const double part : bar.parts) sum += std::isfinite(part) ? part : 0;
  return sum;
}

// From left to right, beside its label.
std::string BarSvg(const Bar& bar, double y, const ChartAxis& axis) {
  std::string svg =
      Text(kBarLeft - 8, y + kBarHeight - 4, "end", "", bar.label);
  double before = 0;
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    if (!std::isfinite(bar.parts[i]) || bar.parts[i] <= 0) continue;
    const double start = axis.At(before, kBarLeft, kBarRight);
    before += bar.parts[i];
    const double end = axis.At(before, kBarLeft, kBarRight);
    absl::StrAppend(&svg, "<rect x=\"", Number(start), "\" y=\"", Number(y),
                    "\" width=\"", Number(end - start), "\" height=\"",
                    kBarHeight, "\" fill=\"", Color(static_cast<int>(i)),
                    "\"/>\n");
  }
  if (bar.low < bar.high) {
    const double middle = y + kBarHeight / 2;
    svg +=
        RangeSvg(axis.At(bar.low, kBarLeft, kBarRight), middle,
                 axis.At(bar.high, kBarLeft, kBarRight), middle, "var(--fg)");
  }
  return svg;
}

std::string LegendSvg(const std::vector<std::string>& parts) {
  std::string svg;
  double x = kBarLeft;
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::StrAppend(&svg, "<rect x=\"", Number(x), "\" y=\"", kTop - 8,
                    "\" width=\"12\" height=\"12\" fill=\"",
                    Color(static_cast<int>(i)), "\"/>\n",
                    Text(x + 17, kTop + 2, "start", "", parts[i]));
    x += 40 + kLetterWidth * static_cast<double>(parts[i].size());
  }
  return svg;
}

}  // namespace

std::string XmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string AxisNumber(double value) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  if (value != 0 && std::abs(value) < 1e-12) value = 0;
  for (const auto& [unit, letter] : kUnits) {
    if (std::abs(value) >= unit * (1 - 1e-9)) {
      // Powers of two stay what they are.
      if (unit == 1e3 && std::abs(value) < 1e4)
        return absl::StrFormat("%.4g", value);
      return absl::StrFormat("%.4g%s", value / unit, letter);
    }
  }
  return absl::StrFormat("%.3g", value);
}

std::string RenderSvg(const LineChart& chart) {
  const Axes axes = AxesOf(chart);
  std::vector<EndLabel> labels;
  std::string lines;
  for (const ChartSeries& series : chart.series)
    lines += SeriesSvg(series, axes, labels);
  return absl::StrCat(Head(chart.title, kHeight), YAxis(axes.y, chart.y_label),
                      XAxis(axes.x, chart.x_ticks, chart.x_label), lines,
                      LabelsSvg(std::move(labels)), "</svg>\n");
}

std::string RenderSvg(const BarChart& chart) {
  double highest = 0;
  for (const Bar& bar : chart.bars)
    highest = std::max({highest, SumOf(bar), bar.high});
  const ChartAxis axis =
      ChartAxis::Covering(0, highest, ChartAxis::Scale::kLinear);
  const double top = kTop + 22;
  const double bottom =
      top + kBarPitch * static_cast<double>(chart.bars.size());
  std::string svg = Head(chart.title, bottom + 54) + LegendSvg(chart.parts);
  for (const double tick : axis.ticks()) {
    const double x = axis.At(tick, kBarLeft, kBarRight);
    absl::StrAppend(&svg, "<line class=\"g\" x1=\"", Number(x), "\" x2=\"",
                    Number(x), "\" y1=\"", top - 4, "\" y2=\"", bottom,
                    "\"/>\n",
                    Text(x, bottom + 18, "middle", "s", AxisNumber(tick)));
  }
  for (size_t i = 0; i < chart.bars.size(); ++i)
    svg +=
        BarSvg(chart.bars[i], top + kBarPitch * static_cast<double>(i), axis);
  absl::StrAppend(&svg, Text((kBarLeft + kBarRight) / 2, bottom + 40, "middle",
                             "s", chart.x_label));
  return svg + "</svg>\n";
}

std::string SvgFile(std::string_view svg) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + std::string(svg);
}

}  // namespace ringmaster::ctl
