#include "server/ctl/compare/report.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/findings.h"
#include "server/ctl/compare/memory.h"
#include "server/ctl/compare/prediction.h"
#include "server/ctl/compare/repeats.h"
#include "server/ctl/compare/svg_chart.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kStyle = R"(<style>
:root{color-scheme:light dark;--back:#ffffff;--ink:#1f2328;--faint:#59636e;--line:#d8dee4;--mark:#fff4d6}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--ink:#e6edf3;--faint:#9198a1;--line:#30363d;--mark:#3a3000}}
body{background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:980px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em}
table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid var(--line);padding:3px 6px;text-align:right;white-space:nowrap;vertical-align:bottom}th{white-space:normal}
td:first-child,th:first-child,td.w{text-align:left}td.w{white-space:normal;overflow-wrap:anywhere}
figure{margin:1.5em 0}figcaption{color:var(--faint);font-size:13px;max-width:760px}
svg{width:100%;min-width:660px;max-width:760px;height:auto}.mark{background:var(--mark);padding:.5em .8em}.scroll{overflow-x:auto}code{font-size:13px}
</style>)";

// In place of the predictions, where workers compute on GPUs.
constexpr std::string_view kOnGpus =
    "<p>Workers computed on GPUs. There <b>auto</b> and <b>ring</b> are "
    "NCCL's: "
    "its own choice, and held to rings (NCCL_ALGO=Ring). It does not tell what "
    "it moves, so that its bytes are missing here. With parameter servers "
    "gradients and parameters pass through the host's memory and travel as "
    "between CPUs. Memory and processor time are the host's alone.</p>\n<p>No "
    "step is predicted: the formulas know one link with one rate, and NCCL "
    "takes ways of its own (between GPUs, through host memory, by the "
    "network), "
    "which parameter servers do not take.</p>\n";

constexpr std::string_view kWhat = R"(<p>Data-parallel training makes one model
on several workers: each computes gradients on its own part of a batch, and
before the next step all must have the same sum. Here the same job was trained in
different ways of making that sum, one after the other:</p><ul>
<li><b>ring</b>: workers pass parts of the gradients round, twice; nobody is special.
This is what DistributedDataParallel does.</li>
<li><b>hierarchical</b>: the same, but first inside each host, then between hosts.</li>
<li><b>gather_broadcast</b>: one worker gets everybody's gradients and sends the sum
back. This is how DataParallel brings gradients together.</li>
<li><b>ps:N</b>: N processes of their own hold the parameters (a parameter server);
workers send them gradients and get parameters back.
<b>ps:colocated</b>: the workers hold a part of the parameters each.</li></ul>)";

std::string Row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string row = "<tr>";
  for (const std::string& cell : cells)
    absl::StrAppend(&row, "<", tag, ">", XmlText(cell), "</", tag, ">");
  return row + "</tr>\n";
}

std::string Megabytes(double bytes) {
  return absl::StrFormat("%.2f", bytes / 1e6);
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.2f", seconds * 1e3);
}

std::string ConditionsTable(const Conditions& conditions) {
  std::string html = "<table>\n";
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    absl::StrAppend(&html, "<tr><td>", name, "</td><td class=\"w\">",
                    XmlText(value), "</td></tr>\n");
  };
  add("When", conditions.time);
  add("Where", conditions.place);
  add("Machine", conditions.machine);
  add("Workers compute on", conditions.device);
  add("Link", conditions.link);
  add("Job", conditions.job);
  if (conditions.repeats > 1) {
    add("Repeats", absl::StrCat(conditions.repeats, " of each run, in turns"));
  }
  add("Model", conditions.model);
  if (conditions.device_memory_bytes > 0) {
    add("Device", absl::StrFormat("largest batches are derived for %.0f MB of "
                                  "memory for each process",
                                  conditions.device_memory_bytes / 1e6));
  }
  add("Program", absl::StrCat("ringctl ", conditions.version));
  add("Command", conditions.command);
  return html + "</table>\n";
}

std::string JobTable(const Comparison& comparison) {
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok()) continue;
    return absl::StrCat(
        "<p>Gradients of all parameters: ", Megabytes(run.gradient_bytes),
        " MB in float32 (K below). ", XmlText(comparison.conditions.batch),
        " Gradients are exchanged in buckets of at most ",
        run.bucket_bytes / 1024,
        " KiB; the first tenth of a run's steps is not counted.</p>\n");
  }
  return "";
}

std::string TheoryCell(const RunResult& run) {
  const std::optional<NodeBytes> bytes = TheoryOf(run);
  return bytes.has_value() ? Megabytes(bytes->busiest) : "-";
}

std::string PredictedCell(const RunResult& run,
                          std::optional<double> predicted) {
  if (!predicted.has_value() || run.step_seconds <= 0) return "-";
  return absl::StrFormat("%.2f (%+.0f %%)", *predicted * 1e3,
                         100 * (*predicted / run.step_seconds - 1));
}

// The median of a figure over the repeats of a run, with its range.
std::string Cell(const Comparison& comparison, const RunResult& run,
                 const FigureOfRun& value,
                 const std::function<std::string(double)>& format) {
  return FigureText(FigureOf(comparison, run, value), format);
}

std::string TimeCell(const Comparison& comparison, const RunResult& run,
                     double RunResult::*seconds) {
  return Cell(
      comparison, run,
      [seconds](const RunResult& repeat) { return repeat.*seconds; },
      Milliseconds);
}

std::string FailedRow(const std::string& label, int workers,
                      const std::string& failure, int columns) {
  return absl::StrCat("<tr><td>", XmlText(label), "</td><td>", workers,
                      "</td><td class=\"w\" colspan=\"", columns,
                      "\">failed: ", XmlText(failure), "</td></tr>\n");
}

std::string MarkedLabel(const RunResult& run) {
  return absl::StrCat(run.label(), run.is_emulated ? " *" : "");
}

std::string Whole(double value) { return absl::StrFormat("%.0f", value); }

// The repeats of `run` that failed.
std::string FailedRepeats(const Comparison& comparison, const RunResult& run,
                          int columns) {
  std::string html;
  for (const RunResult& repeat : comparison.runs) {
    if (repeat.is_ok() || repeat.label() != run.label() ||
        repeat.workers != run.workers) {
      continue;
    }
    html += FailedRow(comparison.conditions.repeats > 1
                          ? absl::StrCat(run.label(), ", turn ", repeat.turn)
                          : run.label(),
                      run.workers, repeat.failure, columns);
  }
  return html;
}

std::string TimesTable(const Comparison& comparison,
                       const Comparison& medians) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th></th><th colspan=\"2\"></th>"
      "<th colspan=\"6\">ms per step</th><th colspan=\"2\"></th></tr>\n";
  html += Row(
      {"mode", "workers", "samples a step", "measured", "predicted (off by)",
       "compute", "transfer", "waiting", "other", "samples/s", "efficiency %"},
      "th");
  for (const RunResult& run : medians.runs) {
    if (run.is_ok()) {
      html +=
          Row({MarkedLabel(run), absl::StrCat(run.workers),
               absl::StrCat(run.global_batch),
               TimeCell(comparison, run, &RunResult::step_seconds),
               PredictedCell(run, PredictedStepSeconds(medians, run)),
               TimeCell(comparison, run, &RunResult::compute_seconds),
               TimeCell(comparison, run, &RunResult::transfer_seconds),
               TimeCell(comparison, run, &RunResult::waiting_seconds),
               TimeCell(comparison, run, &RunResult::other_seconds),
               Cell(
                   comparison, run,
                   [](const RunResult& repeat) {
                     return repeat.samples_per_second;
                   },
                   [](double value) { return absl::StrFormat("%.1f", value); }),
               run.variant.empty() ? Cell(
                                         comparison, run,
                                         [&](const RunResult& repeat) {
                                           return 100 *
                                                  EfficiencyOf(medians, repeat);
                                         },
                                         Whole)
                                   : "-"});
    }
    html += FailedRepeats(comparison, run, 9);
  }
  return html + "</table></div>\n";
}

std::string LoadsTable(const Comparison& comparison,
                       const Comparison& medians) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th></th><th></th><th "
      "colspan=\"3\">MB per step, one direction</th><th colspan=\"2\">"
      "processor, ms per step</th><th colspan=\"2\">peak memory of workers, "
      "MB</th>"
      "</tr>\n";
  html += Row({"mode", "workers", "busiest node", "by theory", "mean of all",
               "busiest rank", "mean", "most", "mean"},
              "th");
  for (const RunResult& run : medians.runs) {
    if (!run.is_ok()) continue;
    const auto megabytes = [&](double Load::*value) -> std::string {
      if (!BytesLoad(run).has_value()) return "-";
      return Cell(
          comparison, run,
          [value](const RunResult& repeat) {
            return BytesLoad(repeat).value_or(Load()).*value;
          },
          Megabytes);
    };
    const auto processor = [&](double Load::*value) {
      return Cell(
          comparison, run,
          [value](const RunResult& repeat) { return CpuLoad(repeat).*value; },
          Milliseconds);
    };
    const auto memory = [&](double Load::*value) {
      return Cell(
          comparison, run,
          [value](const RunResult& repeat) {
            return MemoryLoad(repeat).*value / 1e6;
          },
          Whole);
    };
    html += Row(
        {MarkedLabel(run), absl::StrCat(run.workers), megabytes(&Load::busiest),
         TheoryCell(run), megabytes(&Load::mean), processor(&Load::busiest),
         processor(&Load::mean), memory(&Load::busiest), memory(&Load::mean)});
  }
  return html + "</table></div>\n";
}

std::string LargestBatchCell(const MemoryResult& memory, double device_bytes) {
  const std::optional<int64_t> largest = LargestBatch(memory, device_bytes);
  if (!largest.has_value()) return "memory did not grow";
  return *largest > 0 ? absl::StrCat(*largest) : "does not fit";
}

std::string MemoryRow(const MemoryResult& memory, double device_bytes) {
  const auto range = [&](double RankMemory::*value, double unit) {
    const Spread spread = SpreadOf(memory, value);
    return absl::StrFormat("%.1f to %.1f", spread.least / unit,
                           spread.most / unit);
  };
  const bool has_grown =
      SpreadOf(memory, &RankMemory::bytes_per_sample).most > 0;
  double server = 0;
  for (const RankMemory& rank : memory.ranks) {
    if (rank.is_server) server = std::max(server, rank.peak_bytes);
  }
  return Row({memory.mode.name, absl::StrCat(memory.workers),
              range(&RankMemory::peak_bytes, 1e6),
              has_grown ? range(&RankMemory::fixed_bytes, 1e6) : "-",
              has_grown ? range(&RankMemory::bytes_per_sample, 1e3) : "-",
              server > 0 ? absl::StrFormat("%.1f", server / 1e6) : "-",
              LargestBatchCell(memory, device_bytes)});
}

std::string MemorySection(const Comparison& comparison) {
  if (comparison.memories.empty()) return "";
  const double device = comparison.conditions.device_memory_bytes;
  const MemoryResult& first = comparison.memories.front();
  std::string html = absl::StrCat(
      "<h2>Memory, and the largest batch</h2>\n<p>Two further runs of each "
      "mode, of four steps that compute, with ",
      first.few_samples, " and ", first.more_samples,
      " samples at once on each worker, measured what a rank needs: a part "
      "for each sample, and a part that does not depend on the batch (its "
      "program, the data set, parameters, gradients, the optimizer's state). "
      "The largest batch is <b>derived</b> from that: the most samples at once "
      "with which the worker that needs most fits into ",
      absl::StrFormat("%.0f MB", device / 1e6),
      ". Growth by less than 1 MiB is taken as chance, and nothing is derived "
      "from it.</p>\n");
  html +=
      "<div class=\"scroll\"><table>\n<tr><th></th><th></th><th "
      "colspan=\"3\">of a worker, least to most</th><th></th><th></th></tr>\n";
  html += Row({"mode", "workers",
               absl::StrCat("MB with ", first.few_samples, " samples"),
               "MB without samples", "kB for each sample", "a server, MB",
               "largest batch of a worker, derived"},
              "th");
  for (const MemoryResult& memory : comparison.memories) {
    html += memory.is_ok() ? MemoryRow(memory, device)
                           : FailedRow(memory.mode.name, memory.workers,
                                       memory.failure, 5);
  }
  return html + "</table></div>\n";
}

// Adds what is missing from a comparison that was interrupted.
void AddCutShort(const Comparison& comparison,
                 const std::function<void(const std::string&)>& add) {
  const Conditions& conditions = comparison.conditions;
  if (!conditions.is_cut_short) return;
  const auto runs = static_cast<int>(comparison.runs.size());
  const auto memories = static_cast<int>(comparison.memories.size());
  if (runs < conditions.planned_runs) {
    add(absl::StrCat("Interrupted: ", runs, " of ", conditions.planned_runs,
                     " runs were made."));
  }
  if (memories < conditions.planned_memories) {
    add(absl::StrCat("Interrupted: memory was measured of ", memories, " of ",
                     conditions.planned_memories, " modes."));
  }
}

// Adds a word on throughput that grows faster than the number of workers.
void AddSuperlinear(const Comparison& medians,
                    const std::function<void(const std::string&)>& add) {
  std::vector<std::string> labels;
  for (const RunResult& run : medians.runs) {
    // As the table shows it.
    if (run.is_ok() && run.variant.empty() &&
        100 * EfficiencyOf(medians, run) >= 100.5) {
      labels.push_back(
          XmlText(absl::StrCat(run.label(), " with ", run.workers)));
    }
  }
  if (labels.empty()) return;
  add(absl::StrCat(
      "An efficiency above 100 % (", absl::StrJoin(labels, ", "),
      " workers) is no gain of the mode: the runs with the fewest workers were "
      "slowed by something else, or less data for each worker fits its caches "
      "better. The other efficiencies are too high for the same reason."));
}

std::string Warnings(const Comparison& comparison, const Comparison& medians) {
  std::string html;
  const auto add = [&](const std::string& text) {
    absl::StrAppend(&html, "<p class=\"mark\">", text, "</p>\n");
  };
  const auto& runs = comparison.runs;
  AddCutShort(comparison, add);
  AddSuperlinear(medians, add);
  if (std::any_of(runs.begin(), runs.end(),
                  [](const RunResult& run) { return run.is_emulated; })) {
    add("Runs marked * do not compute: forward and backward are pauses as long "
        "as the real ones were when one worker ran alone, and gradients are "
        "made up. Transfers, waiting and updates are real. Their losses mean "
        "nothing and are not shown.");
  }
  if (std::any_of(runs.begin(), runs.end(), [](const RunResult& run) {
        return run.is_ok() && run.mode.name == "hierarchical" &&
               (run.ranks_per_host <= 1 || run.ranks_per_host >= run.workers);
      })) {
    add("Where each worker is a host of its own, or all are on one, "
        "hierarchical has no second level: with a host for each it is a ring, "
        "and how far the two are apart is how far a run is from the next.");
  }
  const int cores = comparison.conditions.cores;
  const bool is_crowded =
      cores > 0 && !comparison.conditions.is_on_gpus &&
      std::any_of(runs.begin(), runs.end(), [&](const RunResult& run) {
        return run.is_ok() && !run.is_emulated && run.workers > cores;
      });
  if (is_crowded) {
    add(absl::StrCat(
        "Some runs have more workers than the machine's ", cores,
        " cores: these share them, so that computing takes longer and scaling "
        "is not that of as many machines."));
  }
  return html;
}

std::string MethodSection(const Comparison& comparison) {
  std::string html =
      "<h2>How the figures were made</h2>\n<p>Every run was a job of its own "
      "with new processes. Repeats were made in turns: each turn runs every "
      "combination once, so that what else the machine did meanwhile met all "
      "of them. A figure is the median over the repeats, with the least and "
      "the most in brackets. Two differ if their medians are farther apart "
      "than either's range is wide and the ranges do not overlap; with less "
      "there is no verdict. Each rank adds up what it sends, receives, "
      "computes "
      "and waits, step by step, and reports the sums; figures here are "
      "differences of two reports, over the steps between them. Bytes are "
      "payloads, without headers. Memory is the most that a process has had "
      "resident in the run. Efficiency is the throughput of a worker, as a "
      "part of that in the best run with the fewest workers.</p>\n<p>Bytes by "
      "theory: a node sends ring 2K(N-1)/N, hierarchical (hosts of g) "
      "K(2(g-1)/g + 2(N/g-1)/N), gather_broadcast K(N-1) at the root, ps:S "
      "NK/S at a server, ps:colocated 2K(N-1)/N, each direction.</p>\n";
  if (comparison.conditions.is_on_gpus)
    return absl::StrCat(html, std::string(kOnGpus));
  html +=
      "<p>Predicted steps: the computing that was measured, and what of the "
      "transfer does not fit behind the backward pass, in which buckets become "
      "ready one by one. An all-reduce takes the busiest node's bytes through "
      "its link, bucket by bucket, and the time of the messages that follow "
      "one another. A server takes in what N workers push and answers each "
      "bucket once all have pushed it, both directions at once. Links are not "
      "shared evenly, so that answers wait for the slowest of N, and a root's "
      "two directions are only partly in use at once: by how much that "
      "lengthens the transfers of a server or a root is taken from the run "
      "with the next smaller number of workers (for servers growing with "
      "1 + 1/2 + ... + 1/N, as the slowest of N random delays does), so that "
      "runs with the fewest workers have no prediction. Where workers "
      "compute on as many cores as there are workers, moving gradients takes "
      "these cores, too: that is left out, and steps take longer.</p>\n";
  const std::optional<KnownLink> link = LinkOf(comparison);
  if (!link.has_value()) return html;
  absl::StrAppend(
      &html, "<p>Of a link: ",
      absl::StrFormat("%.1f MB/s", 1e-6 / link->cost.seconds_per_byte), ", ",
      comparison.conditions.link_bytes_per_second > 0
          ? absl::StrFormat(
                "the rate it was limited to, and %.0f us a message, assumed, "
                "times processes per core where that is more than one",
                1e6 * link->cost.latency_seconds)
          : absl::StrCat("what the all-reduces of ",
                         XmlText(link->source->label()), " with ",
                         link->source->workers,
                         " workers reached, for which there is therefore no "
                         "prediction"),
      ".</p>\n");
  return html;
}

}  // namespace

std::string ReportHtml(const Comparison& comparison) {
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>Ring or parameter server: ",
      XmlText(comparison.conditions.job), "</title>\n", std::string(kStyle),
      "</head><body>\n<h1>Ring or parameter server</h1>\n");
  const Comparison medians = MediansOf(comparison);
  absl::StrAppend(&html, std::string(kWhat), "\n<h2>Conditions</h2>\n",
                  ConditionsTable(comparison.conditions), JobTable(comparison),
                  Warnings(comparison, medians));
  const std::vector<std::string> findings = FindingsOf(comparison);
  if (!findings.empty()) {
    html += "<h2>What it shows</h2>\n<ul>\n";
    for (const std::string& finding : findings)
      absl::StrAppend(&html, "<li>", XmlText(finding), "</li>\n");
    html += "</ul>\n";
  }
  absl::StrAppend(&html, "<h2>Figures</h2>\n", TimesTable(comparison, medians),
                  "<p></p>\n", LoadsTable(comparison, medians),
                  MemorySection(comparison));
  for (const NamedChart& chart : ChartsOf(comparison)) {
    absl::StrAppend(&html, "<figure class=\"scroll\">\n", chart.svg,
                    "<figcaption>", XmlText(chart.caption),
                    "</figcaption></figure>\n");
  }
  return absl::StrCat(html, MethodSection(medians), "</body></html>\n");
}

}  // namespace ringmaster::ctl
