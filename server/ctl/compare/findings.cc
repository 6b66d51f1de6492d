#include "server/ctl/compare/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/ctl/compare/comparison_charts.h"

namespace ringmaster::ctl {
namespace {

constexpr double kMegabyte = 1e6;

// The run of this mode, without variations; null if it was not, or failed.
const RunResult* Find(const Comparison& comparison, std::string_view mode,
                      int workers) {
  for (const RunResult& run : comparison.runs) {
    if (run.is_ok() && run.mode.name == mode && run.workers == workers &&
        run.variant.empty()) {
      return &run;
    }
  }
  return nullptr;
}

std::set<int> WorkerCounts(const Comparison& comparison) {
  std::set<int> counts;
  for (const RunResult& run : comparison.runs) {
    if (run.is_ok()) counts.insert(run.workers);
  }
  return counts;
}

// "12 % more", "3 % less".
std::string Change(double ratio) {
  return absl::StrFormat("%.0f %% %s", 100 * std::abs(ratio - 1),
                         ratio >= 1 ? "more" : "less");
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3g ms", 1e3 * seconds);
}

void AddFastest(const Comparison& comparison, int workers,
                std::vector<std::string>& findings) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : comparison.runs) {
    if (run.is_ok() && run.workers == workers && run.variant.empty())
      runs.push_back(&run);
  }
  if (runs.size() < 2) return;
  std::stable_sort(runs.begin(), runs.end(),
                   [](const RunResult* a, const RunResult* b) {
                     return a->step_seconds < b->step_seconds;
                   });
  std::string text = absl::StrCat(
      "With ", workers, " workers ", runs.front()->mode.name,
      " is the fastest: ", Milliseconds(runs.front()->step_seconds), " a step");
  for (size_t i = 1; i < runs.size(); ++i) {
    absl::StrAppend(
        &text, i == 1 ? "; " : ", ", runs[i]->mode.name, " takes ",
        absl::StrFormat("%.2f times",
                        runs[i]->step_seconds / runs.front()->step_seconds),
        i == 1 ? " as long" : "");
  }
  findings.push_back(absl::StrCat(text, "."));
}

void AddGrowth(const Comparison& comparison, int fewest, int most,
               std::vector<std::string>& findings) {
  for (const std::string_view mode : {"ring", "hierarchical", "ps:colocated",
                                      "ps:1", "ps:2", "gather_broadcast"}) {
    const RunResult* few = Find(comparison, mode, fewest);
    const RunResult* many = Find(comparison, mode, most);
    if (few == nullptr || many == nullptr) continue;
    const double before = BytesLoad(*few).busiest;
    const double after = BytesLoad(*many).busiest;
    if (before <= 0 || many->wire_bytes() <= 0) continue;
    findings.push_back(absl::StrFormat(
        "%s: from %d to %d workers the busiest node's bytes a step go from "
        "%.2f to %.2f MB: %.2f times as many (%.2f and %.2f times the "
        "gradients' %.2f MB).",
        std::string(mode), fewest, most, before / kMegabyte, after / kMegabyte,
        after / before, before / few->wire_bytes(), after / many->wire_bytes(),
        many->wire_bytes() / kMegabyte));
  }
}

void AddGatherBroadcast(const Comparison& comparison, int workers,
                        std::vector<std::string>& findings) {
  const RunResult* ring = Find(comparison, "ring", workers);
  const RunResult* root = Find(comparison, "gather_broadcast", workers);
  if (ring == nullptr || root == nullptr) return;
  findings.push_back(absl::StrFormat(
      "An epoch with %d workers takes %.2f times as long by gather-broadcast, "
      "which is how DataParallel works, as by the ring, which is how "
      "DistributedDataParallel does (%.1f and %.1f samples a second).",
      workers, ring->samples_per_second / root->samples_per_second,
      root->samples_per_second, ring->samples_per_second));
  const Load memory = MemoryLoad(*root);
  const Load even = MemoryLoad(*ring);
  findings.push_back(absl::StrFormat(
      "The root of gather-broadcast moves %.1f times the mean of all ranks' "
      "bytes and needs %.2f times the mean memory; the busiest rank of the "
      "ring %.2f times and %.2f times.",
      BytesLoad(*root).busiest / std::max(1.0, BytesLoad(*root).mean),
      memory.busiest / std::max(1.0, memory.mean),
      BytesLoad(*ring).busiest / std::max(1.0, BytesLoad(*ring).mean),
      even.busiest / std::max(1.0, even.mean)));
}

void AddVariations(const Comparison& comparison,
                   std::vector<std::string>& findings) {
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok() || run.variant.empty()) continue;
    const RunResult* plain = Find(comparison, run.mode.name, run.workers);
    if (plain == nullptr || plain->samples_per_second <= 0) continue;
    findings.push_back(
        absl::StrCat(run.label(), ", ", run.workers, " workers: ",
                     Change(run.samples_per_second / plain->samples_per_second),
                     " samples a second than without (",
                     absl::StrFormat("%.1f and %.1f", run.samples_per_second,
                                     plain->samples_per_second),
                     ")."));
  }
}

}  // namespace

std::vector<std::string> FindingsOf(const Comparison& comparison) {
  std::vector<std::string> findings;
  const std::set<int> counts = WorkerCounts(comparison);
  for (const int workers : counts) AddFastest(comparison, workers, findings);
  if (counts.size() > 1)
    AddGrowth(comparison, *counts.begin(), *counts.rbegin(), findings);
  if (!counts.empty())
    AddGatherBroadcast(comparison, *counts.rbegin(), findings);
  AddVariations(comparison, findings);
  return findings;
}

}  // namespace ringmaster::ctl
