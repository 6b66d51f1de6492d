#include "server/ctl/compare/comparison_charts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/ctl/compare/prediction.h"
#include "server/ctl/compare/repeats.h"
#include "server/ctl/compare/svg_chart.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kMegabyte = 1e6;
constexpr int kFewestNodes = 16;
constexpr int kMostNodes = 4096;
constexpr int kRanksPerHostAtScale = 8;

using RunList = std::vector<const RunResult*>;

RunList Measured(const Comparison& comparison) {
  RunList runs;
  for (const RunResult& run : comparison.runs) {
    if (run.is_ok()) runs.push_back(&run);
  }
  return runs;
}

// One line a label, in the order in which labels come.
struct Group {
  std::string label;
  int color = 0;
  RunList runs;
};

std::vector<Group> Grouped(const RunList& runs) {
  std::vector<Group> groups;
  for (const RunResult* run : runs) {
    auto group = std::find_if(
        groups.begin(), groups.end(),
        [&](const Group& known) { return known.label == run->label(); });
    if (group == groups.end()) {
      groups.push_back({run->label(), static_cast<int>(groups.size()), {}});
      group = groups.end() - 1;
    }
    group->runs.push_back(run);
  }
  return groups;
}

using ValueOf = std::function<std::optional<double>(const RunResult&)>;

// `repeated` has the repeats of the runs; null: their range is not shown.
ChartSeries SeriesOf(const Comparison* repeated, const Group& group,
                     const ValueOf& value) {
  ChartSeries series;
  series.label = group.label;
  series.color = group.color;
  for (const RunResult* run : group.runs) {
    const std::optional<double> y = value(*run);
    if (!y.has_value()) continue;
    ChartPoint point{static_cast<double>(run->workers), *y, *y, *y};
    if (repeated != nullptr) {
      const Figure figure = FigureOf(
          *repeated, *run,
          [&](const RunResult& repeat) { return value(repeat).value_or(*y); });
      point.low = figure.least;
      point.high = figure.most;
    }
    series.points.push_back(point);
  }
  return series;
}

LineChart OverWorkers(const Comparison& repeated, const RunList& runs,
                      std::string title, std::string y_label,
                      const ValueOf& value) {
  LineChart chart{.title = std::move(title),
                  .x_label = "workers",
                  .y_label = std::move(y_label),
                  .is_x_log = true};
  for (const RunResult* run : runs)
    chart.x_ticks.insert(static_cast<double>(run->workers));
  for (const Group& group : Grouped(runs))
    chart.series.push_back(SeriesOf(&repeated, group, value));
  return chart;
}

// Adds what `value` expects, dashed, in the colour of the measured line.
void AddExpected(const RunList& runs, const ValueOf& value, LineChart& chart) {
  for (const Group& group : Grouped(runs)) {
    ChartSeries series = SeriesOf(nullptr, group, value);
    series.label.clear();
    series.is_dashed = true;
    series.has_markers = false;
    chart.series.push_back(std::move(series));
  }
}

std::string BarLabel(const RunResult& run) {
  return absl::StrCat(run.label(), " x", run.workers);
}

NamedChart StepTimeChart(const Comparison& repeated, const RunList& runs) {
  BarChart chart{.title = "Where the time of a step goes",
                 .x_label = "ms per step",
                 .parts = {"compute", "transfer", "waiting", "other"},
                 .bars = {}};
  for (const RunResult* run : runs) {
    const Figure step = FigureOf(repeated, *run, [](const RunResult& repeat) {
      return repeat.step_seconds / kMillisecond;
    });
    chart.bars.push_back({.label = BarLabel(*run),
                          .parts = {run->compute_seconds / kMillisecond,
                                    run->transfer_seconds / kMillisecond,
                                    run->waiting_seconds / kMillisecond,
                                    run->other_seconds / kMillisecond},
                          .low = step.least,
                          .high = step.most});
  }
  return {"step_time", RenderSvg(chart),
          "Mean of the workers, median of the repeats; the thin line spans the "
          "steps of the repeats. Compute is forward, backward and update. "
          "Transfer is the time in which even the worker that waited least had "
          "nothing left to compute; waiting is what the others waited beyond "
          "that, for slower workers. Transfers that hide behind the backward "
          "pass cost nothing and are not shown."};
}

NamedChart LoadChart(const RunList& runs, const std::string& name,
                     const std::string& title, const std::string& x_label,
                     double unit,
                     std::optional<Load> (*load_of)(const RunResult&),
                     const std::string& caption) {
  BarChart chart{.title = title,
                 .x_label = x_label,
                 .parts = {"mean", "busiest, beyond it"},
                 .bars = {}};
  for (const RunResult* run : runs) {
    const std::optional<Load> load = load_of(*run);
    if (!load.has_value()) continue;
    chart.bars.push_back(
        {.label = BarLabel(*run),
         .parts = {load->mean / unit,
                   std::max(0.0, load->busiest - load->mean) / unit}});
  }
  return {name, RenderSvg(chart), caption};
}

NamedChart BytesChart(const Comparison& repeated, const RunList& runs) {
  LineChart chart = OverWorkers(
      repeated, runs, "Bytes of the busiest node", "MB per step, one direction",
      [](const RunResult& run) -> std::optional<double> {
        const std::optional<Load> load = BytesLoad(run);
        if (!load.has_value()) return std::nullopt;
        return load->busiest / kMegabyte;
      });
  AddExpected(
      runs,
      [](const RunResult& run) -> std::optional<double> {
        const std::optional<NodeBytes> bytes = TheoryOf(run);
        if (!bytes.has_value()) return std::nullopt;
        return bytes->busiest / kMegabyte;
      },
      chart);
  return {"bytes", RenderSvg(chart),
          "Solid: counted. Dashed: by theory, K being the size of all "
          "gradients: a node of a ring sends 2K(N-1)/N, which never exceeds "
          "2K; the root of gather-broadcast sends K(N-1), one of S servers "
          "NK/S: these grow with the number of workers N."};
}

// Without variations, which would only be further lines.
RunList Plain(const RunList& runs) {
  RunList plain;
  for (const RunResult* run : runs) {
    if (run->variant.empty()) plain.push_back(run);
  }
  return plain;
}

// Throughput of each variation, and of the job as it is.
NamedChart VariationChart(const Comparison& repeated, const RunList& runs) {
  BarChart chart{.title = "What variations bring",
                 .x_label = "samples per second",
                 .parts = {"throughput"},
                 .bars = {}};
  for (const RunResult* run : runs) {
    const bool is_varied =
        std::any_of(runs.begin(), runs.end(), [&](const RunResult* other) {
          return !other->variant.empty() && other->mode.name == run->mode.name;
        });
    if (!is_varied) continue;
    const Figure samples = FigureOf(
        repeated, *run,
        [](const RunResult& repeat) { return repeat.samples_per_second; });
    chart.bars.push_back({.label = BarLabel(*run),
                          .parts = {run->samples_per_second},
                          .low = samples.least,
                          .high = samples.most});
  }
  return {"variations", RenderSvg(chart),
          "The job as it is, and each of its variations."};
}

RunList WithLosses(const RunList& runs) {
  // With one number of workers: others would only add lines.
  RunList chosen;
  for (const RunResult* run : runs) {
    if (run->is_emulated || run->losses.size() < 2) continue;
    if (!chosen.empty() && chosen.front()->workers != run->workers) continue;
    chosen.push_back(run);
  }
  return chosen;
}

NamedChart LossChart(const RunList& runs, bool is_over_time) {
  LineChart chart{
      .title = absl::StrCat("Loss against ", is_over_time ? "time" : "samples",
                            ", ", runs.front()->workers, " workers"),
      .x_label = is_over_time ? "seconds since the first step" : "samples",
      .y_label = "loss of a step",
      .starts_at_zero = false};
  for (const Group& group : Grouped(runs)) {
    ChartSeries series{
        .label = group.label, .color = group.color, .has_markers = false};
    for (const LossPoint& point : group.runs.front()->losses) {
      series.points.push_back(
          {is_over_time ? point.seconds : point.samples, point.loss});
    }
    chart.series.push_back(std::move(series));
  }
  return {is_over_time ? "loss_time" : "loss_samples", RenderSvg(chart),
          is_over_time
              ? "How soon each mode gets as far: what counts in the end."
              : "Against samples the lines lie on one another where a mode "
                "changes only how gradients travel, and not what is learnt."};
}

NamedChart PredictionChart(const Comparison& repeated,
                           const Comparison& medians, const RunList& runs) {
  LineChart chart = OverWorkers(
      repeated, runs, "Step time: measured and predicted", "ms per step",
      [](const RunResult& run) -> std::optional<double> {
        return run.step_seconds / kMillisecond;
      });
  AddExpected(
      runs,
      [&medians](const RunResult& run) -> std::optional<double> {
        const auto seconds = PredictedStepSeconds(medians, run);
        if (!seconds.has_value()) return std::nullopt;
        return *seconds / kMillisecond;
      },
      chart);
  return {"prediction", RenderSvg(chart),
          "Solid: measured. Dashed: predicted, from the computing that was "
          "measured, the link, and for servers and a root also from the run "
          "with the next smaller number of workers, so that lines begin at "
          "the second one."};
}

// Returns one run for each mode, without variations: the one with the fewest
// workers, whose compute time is least distorted by sharing cores.
RunList Representatives(const RunList& runs) {
  std::map<std::string, const RunResult*> by_mode;
  RunList chosen;
  for (const RunResult* run : runs) {
    if (!run->variant.empty() || by_mode.contains(run->mode.name)) continue;
    by_mode[run->mode.name] = run;
    chosen.push_back(run);
  }
  return chosen;
}

NamedChart ScaleChart(const Comparison& comparison, const RunList& runs) {
  LineChart chart{.title = "Predicted share of a step that computes",
                  .x_label = "nodes, each with the work of one measured here",
                  .y_label = "share of the step, %",
                  .is_x_log = true};
  for (const Group& group : Grouped(Representatives(runs))) {
    ChartSeries series{.label = group.label,
                       .color = group.color,
                       .is_dashed = true,
                       .has_markers = false};
    const RunResult& run = *group.runs.front();
    const int at_once =
        run.mode.name == "hierarchical" ? kRanksPerHostAtScale : 1;
    for (int nodes = kFewestNodes; nodes <= kMostNodes; nodes *= 2) {
      const auto share = ComputingShare(comparison, run, nodes, at_once);
      if (!share.has_value()) break;
      series.points.push_back({static_cast<double>(nodes), 100 * *share});
    }
    chart.series.push_back(std::move(series));
  }
  return {
      "scale", RenderSvg(chart),
      absl::StrCat(
          "Not measured: the formulas below, with the link and the computing "
          "of this run and a core for each process; each node has as many "
          "samples as a worker has here. For hierarchical ",
          kRanksPerHostAtScale,
          " nodes share a host and its link. It leaves out slow and failing "
          "nodes, and switches that are shared.")};
}

bool IsAny(const RankResult&) { return true; }
bool IsWorker(const RankResult& rank) { return !rank.is_server; }

// Returns the load of the ranks for which `is_counted`.
Load LoadOf(const RunResult& run, double (*value)(const RankResult&),
            bool (*is_counted)(const RankResult&) = IsAny) {
  Load load;
  int count = 0;
  for (const RankResult& rank : run.ranks) {
    if (!is_counted(rank)) continue;
    load.busiest = std::max(load.busiest, value(rank));
    load.mean += value(rank);
    ++count;
  }
  if (count > 0) load.mean /= count;
  return load;
}

// Returns true if the bytes of any run are known.
bool HasBytes(const RunList& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunResult* run) {
    return BytesLoad(*run).has_value();
  });
}

void AddScaling(const Comparison& repeated, const Comparison& medians,
                const RunList& runs, std::vector<NamedChart>& charts) {
  charts.push_back(
      {"throughput",
       RenderSvg(OverWorkers(repeated, runs, "Throughput", "samples per second",
                             [](const RunResult& run) -> std::optional<double> {
                               return run.samples_per_second;
                             })),
       "Samples that all workers together train on in a second. A thin line "
       "spans the repeats."});
  charts.push_back(
      {"efficiency",
       RenderSvg(OverWorkers(
           repeated, runs, "Scaling efficiency", "% of perfect scaling",
           [&](const RunResult& run) -> std::optional<double> {
             return 100 * EfficiencyOf(medians, run);
           })),
       "Throughput of a worker, as a part of that in the best run with the "
       "fewest workers."});
}

}  // namespace

std::optional<Load> BytesLoad(const RunResult& run) {
  if (run.is_by_nccl) return std::nullopt;
  return LoadOf(run, [](const RankResult& rank) {
    return std::max(rank.sent_bytes, rank.received_bytes);
  });
}

Load MemoryLoad(const RunResult& run) {
  return LoadOf(
      run, [](const RankResult& rank) { return rank.peak_resident_bytes; },
      IsWorker);
}

Load CpuLoad(const RunResult& run) {
  return LoadOf(run, [](const RankResult& rank) { return rank.cpu_seconds; });
}

double EfficiencyOf(const Comparison& comparison, const RunResult& run) {
  int fewest = 0;
  double best = 0;  // a worker's
  for (const RunResult* other : Measured(comparison)) {
    if (!other->variant.empty()) continue;
    if (fewest != 0 && other->workers > fewest) continue;
    if (other->workers < fewest) best = 0;
    fewest = other->workers;
    best = std::max(best, other->samples_per_second / fewest);
  }
  return best > 0 ? run.samples_per_second / run.workers / best : 0;
}

std::vector<NamedChart> ChartsOf(const Comparison& comparison) {
  const Comparison medians = MediansOf(comparison);
  const RunList runs = Measured(medians);
  std::vector<NamedChart> charts;
  if (runs.empty()) return charts;
  const bool has_scaling =
      std::any_of(runs.begin(), runs.end(), [&](const RunResult* run) {
        return run->workers != runs.front()->workers;
      });
  const RunList plain = Plain(runs);
  charts.push_back(StepTimeChart(comparison, runs));
  if (plain.size() < runs.size())
    charts.push_back(VariationChart(comparison, runs));
  if (has_scaling) {
    AddScaling(comparison, medians, plain, charts);
    if (HasBytes(plain)) charts.push_back(BytesChart(comparison, plain));
  } else if (HasBytes(runs)) {
    charts.push_back(LoadChart(
        runs, "bytes", "Bytes of a node", "MB per step, one direction",
        kMegabyte, BytesLoad, "Sent or received, whichever is more."));
  }
  charts.push_back(LoadChart(
      runs, "memory", "Peak memory of a worker", "MB resident", kMegabyte,
      [](const RunResult& run) { return std::optional(MemoryLoad(run)); },
      "With all that a worker's process has: its program, the "
      "data set, parameters, gradients, the optimizer's state, activations. "
      "The largest batch is the one that fits on the worker that needs "
      "most."));
  charts.push_back(LoadChart(
      runs, "cpu", "Processor time of a rank", "ms per step", kMillisecond,
      [](const RunResult& run) { return std::optional(CpuLoad(run)); },
      "Of all threads of its process, also those that "
      "move and add gradients."));
  if (const RunList with_losses = WithLosses(runs); !with_losses.empty()) {
    charts.push_back(LossChart(with_losses, /*is_over_time=*/true));
    charts.push_back(LossChart(with_losses, /*is_over_time=*/false));
  }
  if (!LinkOf(medians).has_value()) return charts;
  if (has_scaling)
    charts.push_back(PredictionChart(comparison, medians, plain));
  // The rate of shared memory says nothing about nodes of a network.
  if (comparison.conditions.link_bytes_per_second > 0 ||
      comparison.conditions.is_on_cluster) {
    charts.push_back(ScaleChart(medians, runs));
  }
  return charts;
}

}  // namespace ringmaster::ctl
