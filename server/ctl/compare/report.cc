#include "server/ctl/compare/report.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/findings.h"
#include "server/ctl/compare/svg_chart.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kStyle = R"(<style>
:root{color-scheme:light dark;--back:#ffffff;--ink:#1f2328;--faint:#59636e;--line:#d8dee4;--mark:#fff4d6}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--ink:#e6edf3;--faint:#9198a1;--line:#30363d;--mark:#3a3000}}
body{background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:980px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em}
table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid var(--line);padding:3px 8px;text-align:right;white-space:nowrap}
td:first-child,th:first-child,td.w{text-align:left}td.w{white-space:normal}
figure{margin:1.5em 0}figcaption{color:var(--faint);font-size:13px;max-width:760px}
svg{max-width:100%;height:auto}.mark{background:var(--mark);padding:.5em .8em}.scroll{overflow-x:auto}code{font-size:13px}
</style>)";

constexpr std::string_view kWhat = R"(<p>Data-parallel training makes one model
on several workers: each computes gradients on its own part of a batch, and
before the next step all must have the same sum. Here the same job was trained in
different ways of making that sum, one after the other:</p><ul>
<li><b>ring</b>: workers pass parts of the gradients round, twice; nobody is special.
This is what DistributedDataParallel does.</li>
<li><b>hierarchical</b>: the same, but first inside each host, then between hosts.</li>
<li><b>gather_broadcast</b>: one worker gets everybody's gradients and sends the sum
back. This is what DataParallel does.</li>
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
  add("Link", conditions.link);
  add("Job", conditions.job);
  add("Model", conditions.model);
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
  const auto bytes =
      BytesOfStep(run.mode, run.workers, run.ranks_per_host, run.wire_bytes());
  return bytes.has_value() ? Megabytes(bytes->busiest) : "-";
}

std::string PredictedCell(const RunResult& run,
                          const std::optional<LinkCost>& link) {
  if (!link.has_value()) return "-";
  const auto seconds = StepSeconds(run.mode, run.workers, ShapeOf(run), *link);
  return seconds.has_value() ? Milliseconds(*seconds) : "-";
}

std::string RunsTable(const Comparison& comparison) {
  const std::optional<LinkCost> link = LinkOf(comparison);
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th></th><th></th><th "
      "colspan=\"6\">ms per step</th><th colspan=\"2\"></th><th "
      "colspan=\"3\">MB per step, busiest node</th><th colspan=\"2\">peak "
      "MB</th></tr>\n";
  html += Row({"mode", "workers", "step", "predicted", "compute", "transfer",
               "waiting", "other", "samples/s", "efficiency %", "measured",
               "theory", "mean of all", "busiest", "mean"},
              "th");
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok()) {
      absl::StrAppend(&html, "<tr><td>", XmlText(run.label()), "</td><td>",
                      run.workers, "</td><td class=\"w\" colspan=\"13\">",
                      "failed: ", XmlText(run.failure), "</td></tr>\n");
      continue;
    }
    const Load bytes = BytesLoad(run);
    const Load memory = MemoryLoad(run);
    html +=
        Row({absl::StrCat(run.label(), run.is_emulated ? " *" : ""),
             absl::StrCat(run.workers), Milliseconds(run.step_seconds),
             PredictedCell(run, link), Milliseconds(run.compute_seconds),
             Milliseconds(run.transfer_seconds),
             Milliseconds(run.waiting_seconds), Milliseconds(run.other_seconds),
             absl::StrFormat("%.1f", run.samples_per_second),
             absl::StrFormat("%.0f", 100 * EfficiencyOf(comparison, run)),
             Megabytes(bytes.busiest), TheoryCell(run), Megabytes(bytes.mean),
             absl::StrFormat("%.0f", memory.busiest / 1e6),
             absl::StrFormat("%.0f", memory.mean / 1e6)});
  }
  return html + "</table></div>\n";
}

std::string Warnings(const Comparison& comparison) {
  std::string html;
  const auto add = [&](const std::string& text) {
    absl::StrAppend(&html, "<p class=\"mark\">", text, "</p>\n");
  };
  const auto& runs = comparison.runs;
  if (comparison.conditions.is_cut_short) {
    add(absl::StrCat("Interrupted: ", runs.size(), " of ",
                     comparison.conditions.planned_runs, " runs were made."));
  }
  if (std::any_of(runs.begin(), runs.end(),
                  [](const RunResult& run) { return run.is_emulated; })) {
    add("Runs marked * do not compute: forward and backward are pauses as long "
        "as the real ones were when one worker ran alone, and gradients are "
        "made up. What travels, waits and updates is real. Their losses mean "
        "nothing and are not shown.");
  }
  const int cores = comparison.conditions.cores;
  const bool is_crowded =
      cores > 0 &&
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
      "with new processes. Each rank adds up what it sends, receives, computes "
      "and waits, step by step, and reports the sums; figures here are "
      "differences of two reports, over the steps between them. Bytes are "
      "payloads, without headers. Memory is the most that a process has had "
      "resident.</p>\n<p>Predictions: a node sends ring 2K(N-1)/N, "
      "hierarchical "
      "(hosts of g) K(2(g-1)/g + 2(N/g-1)/N), gather_broadcast K(N-1) at the "
      "root, ps:S NK/S at a server, ps:colocated 2K(N-1)/N, each direction. "
      "Time is bytes through the busiest node's link plus the latency of the "
      "messages that follow one another; a step is the computing that was "
      "measured, and what of the transfer does not fit behind the backward "
      "pass.</p>\n";
  const std::optional<LinkCost> link = LinkOf(comparison);
  if (!link.has_value()) return html;
  absl::StrAppend(
      &html, "<p>Of a link: ",
      absl::StrFormat("%.1f MB/s", 1e-6 / link->seconds_per_byte), ", ",
      comparison.conditions.link_bytes_per_second > 0
          ? absl::StrFormat(
                "the rate it was limited to, and %.0f us a message, assumed",
                1e6 * link->latency_seconds)
          : "what the all-reduce over the fewest workers reached: its own "
            "prediction is none",
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
  absl::StrAppend(&html, std::string(kWhat), "\n<h2>Conditions</h2>\n",
                  ConditionsTable(comparison.conditions), JobTable(comparison),
                  Warnings(comparison));
  const std::vector<std::string> findings = FindingsOf(comparison);
  if (!findings.empty()) {
    html += "<h2>What it shows</h2>\n<ul>\n";
    for (const std::string& finding : findings)
      absl::StrAppend(&html, "<li>", XmlText(finding), "</li>\n");
    html += "</ul>\n";
  }
  absl::StrAppend(&html, "<h2>Figures</h2>\n", RunsTable(comparison));
  for (const NamedChart& chart : ChartsOf(comparison)) {
    absl::StrAppend(&html, "<figure>\n", chart.svg, "<figcaption>",
                    XmlText(chart.caption), "</figcaption></figure>\n");
  }
  return absl::StrCat(html, MethodSection(comparison), "</body></html>\n");
}

}  // namespace ringmaster::ctl
