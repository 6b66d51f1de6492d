// Charts as SVG: lines over numbers, and stacked bars beside names.
//
// Text, no script, nothing from outside; each carries its own style and is
// legible on a light and on a dark background (prefers-color-scheme). Axes have
// names and units, lines are labelled where they end. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_SVG_CHART_H_
#define RINGMASTER_SERVER_CTL_COMPARE_SVG_CHART_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::ctl {

struct ChartPoint {
  double x = 0;
  double y = 0;
  // The range of y, as a thin line; none if they are equal.
  double low = y;
  double high = y;
};

struct ChartSeries {
  std::string label = {};
  std::vector<ChartPoint> points = {};
  int color = 0;            // series that belong together share it
  bool is_dashed = false;   // predicted, by theory
  bool has_markers = true;  // a dot at each point
};

struct LineChart {
  std::string title = {};
  std::string x_label = {};  // with its unit
  std::string y_label = {};
  std::vector<ChartSeries> series = {};
  std::set<double> x_ticks = {};  // in place of those of the axis; empty: those
  bool is_x_log = false;          // base 2; every x is above 0
  bool is_y_log = false;          // base 10; points at or below 0 are left out
  bool starts_at_zero = true;     // the y axis, where it is not logarithmic
};

struct Bar {
  std::string label = {};
  std::vector<double> parts;  // from the left, as in BarChart::parts
  // The range of their sum, as a thin line; none if they are equal.
  double low = 0;
  double high = 0;
};

struct BarChart {
  std::string title = {};
  std::string x_label = {};
  std::vector<std::string> parts = {};  // their names
  std::vector<Bar> bars = {};
};

// An <svg> element without an XML declaration. Values that are not finite are
// left out.
[[nodiscard]] std::string RenderSvg(const LineChart& chart);
[[nodiscard]] std::string RenderSvg(const BarChart& chart);

// With what a file of its own needs before the element.
[[nodiscard]] std::string SvgFile(std::string_view svg);

// `text` in XML: <, >, & and quotes replaced.
[[nodiscard]] std::string XmlText(std::string_view text);

// "1.5k", "20M", "0.25": a number for an axis.
[[nodiscard]] std::string AxisNumber(double value);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_SVG_CHART_H_
