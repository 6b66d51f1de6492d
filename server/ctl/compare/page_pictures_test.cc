// The pictures in docs/compare.md are what the report draws of the figures that
// the page was written from, docs/images/compare_figures.json. To draw them
// anew:
//
//   REWRITE_PICTURES=1 bazel run //server/ctl/compare:page_pictures_test
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/mode.h"
#include "server/ctl/compare/result.h"
#include "server/ctl/compare/svg_chart.h"

namespace ringmaster::ctl {
namespace {

constexpr char kFolder[] = "docs/images/";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The turns of a combination whose median and range the page has.
std::vector<RunResult> TurnsOf(const nlohmann::json& figures) {
  RunResult run;
  run.mode = ParseMode(figures.at("mode").get<std::string>()).value();
  run.variant = figures.at("variant");
  run.workers = figures.at("workers");
  run.ranks_per_host = 1;
  run.gradient_bytes = figures.at("wire_bytes");
  run.step_seconds = figures.at("step_seconds");
  run.ranks.emplace_back().sent_bytes = figures.at("busiest_bytes");
  const double median = figures.at("samples_per_second");
  std::vector<RunResult> turns;
  for (const double samples_per_second :
       {figures.value("least_samples_per_second", median), median,
        figures.value("most_samples_per_second", median)}) {
    run.turn = static_cast<int>(turns.size()) + 1;
    run.samples_per_second = samples_per_second;
    turns.push_back(run);
  }
  return turns;
}

Comparison ComparisonOfThePage() {
  const auto figures = nlohmann::json::parse(
      ReadFile(absl::StrCat(kFolder, "compare_figures.json")));
  Comparison comparison;
  comparison.conditions.repeats = 3;
  for (const nlohmann::json& run : figures.at("runs")) {
    for (RunResult& turn : TurnsOf(run))
      comparison.runs.push_back(std::move(turn));
  }
  return comparison;
}

TEST(PagePicturesTest, AreWhatTheReportDraws) {
  const std::vector<NamedChart> charts = ChartsOf(ComparisonOfThePage());
  for (const char* name : {"bytes", "throughput"}) {
    const auto chart =
        std::find_if(charts.begin(), charts.end(),
                     [&](const NamedChart& c) { return c.name == name; });
    ASSERT_NE(chart, charts.end()) << name;
    const std::string path = absl::StrCat(kFolder, "compare_", name, ".svg");
    const std::string drawn = SvgFile(chart->svg);
    const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
    if (std::getenv("REWRITE_PICTURES") != nullptr && workspace != nullptr)
      std::ofstream(absl::StrCat(workspace, "/", path)) << drawn;
    EXPECT_EQ(ReadFile(path), drawn)
        << path << " is of another size or form; see the head of this file";
  }
}

}  // namespace
}  // namespace ringmaster::ctl
