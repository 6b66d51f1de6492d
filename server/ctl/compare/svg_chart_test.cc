#include "server/ctl/compare/svg_chart.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/compare/chart_axis.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int CountOf(const std::string& text, const std::string& piece) {
  int count = 0;
  for (size_t at = text.find(piece); at != std::string::npos;
       at = text.find(piece, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ChartAxisTest, HasRoundTicksAndCoversItsRange) {
  const ChartAxis axis = ChartAxis::Covering(0, 87, ChartAxis::Scale::kLinear);
  EXPECT_THAT(axis.ticks(), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_DOUBLE_EQ(axis.At(50, 0, 10), 5);
  EXPECT_DOUBLE_EQ(axis.At(0, 100, 20), 100);
}

TEST(ChartAxisTest, CountsInPowersWhereItIsLogarithmic) {
  const ChartAxis twos = ChartAxis::Covering(2, 16, ChartAxis::Scale::kLog2);
  EXPECT_THAT(twos.ticks(), ElementsAre(2, 4, 8, 16));
  EXPECT_DOUBLE_EQ(twos.At(4, 0, 3), 1);
  EXPECT_FALSE(twos.Takes(0));
  const ChartAxis tens = ChartAxis::Covering(3, 4000, ChartAxis::Scale::kLog10);
  EXPECT_THAT(tens.ticks(), ElementsAre(1, 10, 100, 1000, 10000));
}

TEST(ChartAxisTest, WidensAnEmptyRange) {
  for (const double value : {-3.0, 0.0, 5.0}) {
    const ChartAxis axis =
        ChartAxis::Covering(value, value, ChartAxis::Scale::kLinear);
    EXPECT_GE(axis.ticks().size(), 2u) << value;
    EXPECT_TRUE(std::isfinite(axis.At(value, 0, 1))) << value;
  }
}

TEST(SvgChartTest, DrawsALineWithItsAxesAndLabel) {
  LineChart chart{.title = "Bytes <per> node",
                  .x_label = "workers",
                  .y_label = "bytes",
                  .series = {{.label = "ring",
                              .points = {{2, 10}, {4, 15}},
                              .color = 1,
                              .is_dashed = true}}};
  const std::string svg = RenderSvg(chart);
  EXPECT_THAT(svg, HasSubstr("Bytes &lt;per&gt; node"));
  EXPECT_THAT(svg, HasSubstr(">workers<"));
  EXPECT_THAT(svg, HasSubstr(">bytes<"));
  EXPECT_THAT(svg, HasSubstr("class=\"l d\" stroke=\"var(--c1)\""));
  EXPECT_THAT(svg, HasSubstr(">ring</text>"));
  EXPECT_EQ(CountOf(svg, "<circle"), 2);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(SvgFile(svg), HasSubstr("<?xml"));
}

TEST(SvgChartTest, HasATickAtEachNumberThatIsGiven) {
  LineChart chart{.series = {{.label = "ring", .points = {{2, 1}, {8, 2}}}},
                  .x_ticks = {2, 3, 8},
                  .is_x_log = true};
  EXPECT_THAT(RenderSvg(chart), HasSubstr(">3</text>"));
  EXPECT_THAT(RenderSvg(chart), Not(HasSubstr(">4</text>")));
  // Labels that would cover one another are left out, their ticks are not.
  chart.series[0].points = {{1, 1}, {64, 2}};
  chart.x_ticks = {1, 62, 63, 64};
  EXPECT_THAT(RenderSvg(chart), HasSubstr(">62</text>"));
  EXPECT_THAT(RenderSvg(chart), Not(HasSubstr(">63</text>")));
}

TEST(SvgChartTest, DrawsTheRangeOfRepeats) {
  LineChart chart{.series = {{.points = {{1, 10, 5, 20}, {2, 10}}}}};
  EXPECT_EQ(CountOf(RenderSvg(chart), "class=\"r\""), 1);
  EXPECT_THAT(RenderSvg(chart), HasSubstr(">20</text>"))
      << "the axis covers it";
  const BarChart bars{
      .parts = {"step"},
      .bars = {{.label = "a", .parts = {10}, .low = 8, .high = 30},
               {.label = "b", .parts = {10}}}};
  EXPECT_EQ(CountOf(RenderSvg(bars), "class=\"r\""), 1);
  EXPECT_THAT(RenderSvg(bars), HasSubstr(">30</text>"));
}

TEST(SvgChartTest, LeavesOutWhatCannotBeDrawn) {
  const double nan = std::nan("");
  LineChart chart{.title = "",
                  .x_label = "",
                  .y_label = "",
                  .series = {{.label = "a", .points = {{0, 1}, {nan, 2}}},
                             {.label = "b", .points = {{1, 0}, {2, 100}}}},
                  .is_x_log = true,
                  .is_y_log = true};
  const std::string svg = RenderSvg(chart);
  EXPECT_EQ(CountOf(svg, "<circle"), 1);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(RenderSvg(LineChart()), Not(HasSubstr("nan")));
  EXPECT_THAT(RenderSvg(BarChart()), Not(HasSubstr("nan")));
}

TEST(SvgChartTest, LabelsOfLinesThatEndTogetherDoNotCover) {
  LineChart chart;
  for (int i = 0; i < 3; ++i) {
    chart.series.push_back(
        {.label = "line" + std::to_string(i), .points = {{0, 1}, {1, 5}}});
  }
  const std::string svg = RenderSvg(chart);
  std::vector<double> heights;
  for (int i = 0; i < 3; ++i) {
    const size_t at = svg.find(">line" + std::to_string(i) + "</text>");
    const size_t y = svg.rfind("y=\"", at);
    heights.push_back(std::stod(svg.substr(y + 3)));
  }
  EXPECT_GE(heights[1] - heights[0], 14);
  EXPECT_GE(heights[2] - heights[1], 14);
}

TEST(SvgChartTest, StacksTheParts) {
  const BarChart chart{.title = "Step",
                       .x_label = "ms",
                       .parts = {"compute", "waiting"},
                       .bars = {{.label = "ring, 2", .parts = {1, 2}},
                                {.label = "ps:1, 2", .parts = {1, 0}}}};
  const std::string svg = RenderSvg(chart);
  // The background, three parts, two in the legend.
  EXPECT_EQ(CountOf(svg, "<rect"), 6);
  EXPECT_THAT(svg, HasSubstr(">ps:1, 2<"));
  EXPECT_THAT(svg, HasSubstr(">waiting<"));
}

TEST(SvgChartTest, WritesNumbersShort) {
  EXPECT_EQ(AxisNumber(0), "0");
  EXPECT_EQ(AxisNumber(0.25), "0.25");
  EXPECT_EQ(AxisNumber(4096), "4096");
  EXPECT_EQ(AxisNumber(20000), "20k");
  EXPECT_EQ(AxisNumber(1.5e6), "1.5M");
  EXPECT_EQ(AxisNumber(3e9), "3G");
}

}  // namespace
}  // namespace ringmaster::ctl
