#include "server/ctl/compare/repeats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster::ctl {
namespace {

// Passes that differ by less than this share do not explain a difference
// between modes, however steady they are.
constexpr double kBusyShare = 0.1;

bool IsRepeat(const RunResult& a, const RunResult& b) {
  return a.workers == b.workers && a.mode.name == b.mode.name &&
         a.variant == b.variant;
}

// The times whose medians are taken; these add up as far as medians do.
constexpr double RunResult::*kTimes[] = {
    &RunResult::wall_seconds,       &RunResult::step_seconds,
    &RunResult::compute_seconds,    &RunResult::transfer_seconds,
    &RunResult::waiting_seconds,    &RunResult::other_seconds,
    &RunResult::backward_seconds,   &RunResult::samples_per_second,
    &RunResult::all_reduce_seconds,
};

RunResult MedianRun(const Comparison& comparison, const RunResult& first) {
  std::vector<const RunResult*> repeats;
  for (const RunResult& run : comparison.runs) {
    if (run.is_ok() && IsRepeat(run, first)) repeats.push_back(&run);
  }
  if (repeats.empty()) return first;
  std::stable_sort(repeats.begin(), repeats.end(),
                   [](const RunResult* a, const RunResult* b) {
                     return a->step_seconds < b->step_seconds;
                   });
  RunResult median = *repeats[(repeats.size() - 1) / 2];
  for (double RunResult::*time : kTimes) {
    std::vector<double> values;
    for (const RunResult* run : repeats) values.push_back(run->*time);
    median.*time = MedianOf(std::move(values));
  }
  return median;
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3g", 1e3 * seconds);
}

}  // namespace

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

Figure FigureOf(const Comparison& comparison, const RunResult& run,
                const FigureOfRun& value) {
  std::vector<double> values;
  for (const RunResult& other : comparison.runs) {
    if (other.is_ok() && IsRepeat(other, run)) values.push_back(value(other));
  }
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Figure figure{
      .least = *least, .most = *most, .runs = static_cast<int>(values.size())};
  figure.median = MedianOf(std::move(values));
  return figure;
}

std::string FigureText(const Figure& figure,
                       const std::function<std::string(double)>& format) {
  std::string text = format(figure.median);
  if (figure.runs > 1) {
    absl::StrAppend(&text, " (", format(figure.least), " to ",
                    format(figure.most), ")");
  }
  return text;
}

bool AreApart(const Figure& a, const Figure& b) {
  if (a.runs < 2 || b.runs < 2) return false;
  return (a.least > b.most || b.least > a.most) &&
         std::abs(a.median - b.median) > std::max(a.spread(), b.spread());
}

Comparison MediansOf(const Comparison& comparison) {
  Comparison medians;
  medians.conditions = comparison.conditions;
  medians.memories = comparison.memories;
  for (const RunResult& run : comparison.runs) {
    if (std::none_of(
            medians.runs.begin(), medians.runs.end(),
            [&](const RunResult& known) { return IsRepeat(known, run); })) {
      medians.runs.push_back(MedianRun(comparison, run));
    }
  }
  return medians;
}

double PassSeconds(const RunResult& run) {
  double sum = 0;
  int workers = 0;
  for (const RankResult& rank : run.ranks) {
    if (rank.is_server || rank.steps == 0) continue;
    sum += rank.forward_seconds + rank.backward_seconds;
    ++workers;
  }
  return workers > 0 ? sum / workers : 0;
}

std::string WhyNoVerdict(const Comparison& comparison, int workers) {
  struct Pass {
    std::string mode;
    Figure figure;
  };
  std::vector<Pass> passes;
  for (const RunResult& run : MediansOf(comparison).runs) {
    if (run.is_ok() && run.workers == workers && run.variant.empty()) {
      passes.push_back({run.mode.name, FigureOf(comparison, run, PassSeconds)});
    }
  }
  if (passes.empty()) return "";
  const auto by_median = [](const Pass& a, const Pass& b) {
    return a.figure.median < b.figure.median;
  };
  if (std::any_of(passes.begin(), passes.end(),
                  [](const Pass& pass) { return pass.figure.runs < 2; })) {
    return absl::StrCat("With ", workers,
                        " workers there is no verdict: single runs do not show "
                        "how far a run is from the next (--repeats).");
  }
  const auto [least, most] =
      std::minmax_element(passes.begin(), passes.end(), by_median);
  if (!AreApart(least->figure, most->figure) ||
      most->figure.median < (1 + kBusyShare) * least->figure.median) {
    return "";
  }
  return absl::StrCat(
      "With ", workers,
      " workers there is no verdict: forward and backward, which are the same "
      "in all modes, took ",
      FigureText(least->figure, Milliseconds), " ms with ", least->mode,
      " and ", FigureText(most->figure, Milliseconds), " ms with ", most->mode,
      ". The machine was busy with something else, or has too few cores for "
      "so many processes.");
}

}  // namespace ringmaster::ctl
