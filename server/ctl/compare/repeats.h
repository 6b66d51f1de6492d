// Repeats: what several runs of the same combination of mode, workers and
// variation say together.
//
// A comparison keeps each run as it was; the figures here are derived from
// these. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_REPEATS_H_
#define RINGMASTER_SERVER_CTL_COMPARE_REPEATS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// The mean of the two in the middle if their number is even; 0 of none.
[[nodiscard]] double MedianOf(std::vector<double> values);

// A figure of a combination, over the runs that succeeded.
struct Figure {
  double median = 0;
  double least = 0;
  double most = 0;
  int runs = 0;

  [[nodiscard]] double spread() const { return most - least; }
};
using FigureOfRun = std::function<double(const RunResult&)>;

// Returns the figure of the combination that `run` belongs to.
[[nodiscard]] Figure FigureOf(const Comparison& comparison,
                              const RunResult& run, const FigureOfRun& value);

// "10.2 (9.8 to 11)", as `format` writes a number; without the range if there
// is one run.
[[nodiscard]] std::string FigureText(
    const Figure& figure, const std::function<std::string(double)>& format);

// Returns true if two figures differ by more than their spread: the medians
// are farther apart than either's least and most are, and the ranges do not
// overlap. Never true for single runs, whose spread is not known.
[[nodiscard]] bool AreApart(const Figure& a, const Figure& b);

// Returns one run for each combination, in the order of their first ones: the
// times are medians, and what has no median (ranks, losses) is that of the run
// in the middle. A combination of which all runs failed has the first failure.
[[nodiscard]] Comparison MediansOf(const Comparison& comparison);

// Seconds of the forward and backward pass of a step, as the mean of the
// workers: these are equal in all modes on an idle machine.
[[nodiscard]] double PassSeconds(const RunResult& run);

// Returns, as a sentence, why the modes cannot be compared with `workers`
// workers: without repeats, or because computing, which is the same in all of
// them, took times that differ by more than their spread. "" if they can.
[[nodiscard]] std::string WhyNoVerdict(const Comparison& comparison,
                                       int workers);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_REPEATS_H_
