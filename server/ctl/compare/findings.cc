#include "server/ctl/compare/findings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/parameter_server/staleness.h"
#include "server/ctl/compare/comparison_charts.h"
#include "server/ctl/compare/memory.h"
#include "server/ctl/compare/prediction.h"
#include "server/ctl/compare/repeats.h"

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

double StepSecondsOf(const RunResult& run) { return run.step_seconds; }
double SamplesOf(const RunResult& run) { return run.samples_per_second; }

// "ring 10 ms (9.8 ms to 10.3 ms)" for each, with commas.
std::string StepsText(const Comparison& comparison,
                      const std::vector<const RunResult*>& runs) {
  return absl::StrJoin(
      runs, ", ", [&](std::string* text, const RunResult* run) {
        absl::StrAppend(text, run->mode.name, " ",
                        FigureText(FigureOf(comparison, *run, StepSecondsOf),
                                   Milliseconds));
      });
}

// A verdict on modes that are apart from the fastest; the others are named with
// it.
void AddFastest(const Comparison& comparison, const Comparison& medians,
                int workers, std::vector<std::string>& findings) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : medians.runs) {
    if (run.is_ok() && run.workers == workers && run.variant.empty())
      runs.push_back(&run);
  }
  if (runs.size() < 2) return;
  const std::string no_verdict = WhyNoVerdict(comparison, workers);
  if (!no_verdict.empty()) {
    findings.push_back(absl::StrCat(
        no_verdict, " A step took: ", StepsText(comparison, runs), "."));
    return;
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const RunResult* a, const RunResult* b) {
                     return a->step_seconds < b->step_seconds;
                   });
  const RunResult& fastest = *runs.front();
  const Figure best = FigureOf(comparison, fastest, StepSecondsOf);
  const auto slower = std::stable_partition(
      runs.begin(), runs.end(), [&](const RunResult* run) {
        return !AreApart(best, FigureOf(comparison, *run, StepSecondsOf));
      });
  const std::vector<const RunResult*> leaders(runs.begin(), slower);
  std::string text = absl::StrCat("With ", workers, " workers ");
  if (leaders.size() == 1) {
    absl::StrAppend(&text, "the fastest is ", StepsText(comparison, leaders),
                    " a step");
  } else {
    absl::StrAppend(&text,
                    slower == runs.end() ? "no mode is faster than another by "
                                           "more than its runs differ: "
                                         : "the fastest are these, which "
                                           "differ no more than their runs: ",
                    StepsText(comparison, leaders), " a step");
  }
  for (auto run = slower; run != runs.end(); ++run) {
    const bool is_first = run == slower;
    absl::StrAppend(&text, is_first ? "; " : ", ", (*run)->mode.name, " takes ",
                    absl::StrFormat("%.2f times", (*run)->step_seconds /
                                                      fastest.step_seconds),
                    is_first ? " as long" : "");
  }
  findings.push_back(absl::StrCat(text, "."));
}

// Returns the modes, in the order of their first runs.
std::vector<std::string> ModesOf(const Comparison& comparison) {
  std::vector<std::string> modes;
  for (const RunResult& run : comparison.runs) {
    if (std::find(modes.begin(), modes.end(), run.mode.name) == modes.end())
      modes.push_back(run.mode.name);
  }
  return modes;
}

void AddGrowth(const Comparison& comparison, int fewest, int most,
               std::vector<std::string>& findings) {
  for (const std::string& mode : ModesOf(comparison)) {
    const RunResult* few = Find(comparison, mode, fewest);
    const RunResult* many = Find(comparison, mode, most);
    if (few == nullptr || many == nullptr) continue;
    const double before = BytesLoad(*few).value_or(Load()).busiest;
    const double after = BytesLoad(*many).value_or(Load()).busiest;
    if (before <= 0 || many->wire_bytes() <= 0) continue;
    findings.push_back(absl::StrFormat(
        "%s: the busiest node moves %.2f times the gradients a step with %d "
        "workers, %.2f times with %d (%.2f and %.2f MB).",
        mode, before / few->wire_bytes(), fewest, after / many->wire_bytes(),
        most, before / kMegabyte, after / kMegabyte));
  }
}

void AddGatherBroadcast(const Comparison& comparison, const Comparison& medians,
                        int workers, std::vector<std::string>& findings) {
  const RunResult* ring = Find(medians, "ring", workers);
  const RunResult* root = Find(medians, "gather_broadcast", workers);
  if (ring == nullptr || root == nullptr || root->samples_per_second <= 0)
    return;
  if (WhyNoVerdict(comparison, workers).empty() &&
      AreApart(FigureOf(comparison, *ring, SamplesOf),
               FigureOf(comparison, *root, SamplesOf))) {
    findings.push_back(absl::StrFormat(
        "An epoch with %d workers takes %.2f times as long by "
        "gather-broadcast, "
        "which is how DataParallel brings gradients together, as by the ring, "
        "which is how DistributedDataParallel does (%.1f and %.1f samples a "
        "second).",
        workers, ring->samples_per_second / root->samples_per_second,
        root->samples_per_second, ring->samples_per_second));
  }
  // With two workers, each moves as much as the other.
  if (workers < 3) return;
  const Load bytes = BytesLoad(*root).value_or(Load());
  const Load cpu = CpuLoad(*root);
  if (bytes.mean <= 0 || cpu.mean <= 0) return;
  findings.push_back(absl::StrFormat(
      "What makes gather-broadcast unbalanced is the root's link: with %d "
      "workers it moves %.1f times the mean of all ranks' bytes and uses %.1f "
      "times the mean processor time, while the others wait.",
      workers, bytes.busiest / bytes.mean, cpu.busiest / cpu.mean));
}

// Adds what a root would need if it kept all gradients before adding them.
void AddCollectingRoot(const MemoryResult& memory, double gradient_bytes,
                       double device_bytes,
                       std::vector<std::string>& findings) {
  MemoryResult collecting = memory;
  RankMemory& root = collecting.ranks.front();
  const double kept = (memory.workers - 1) * gradient_bytes;
  root.fixed_bytes += kept;
  root.peak_bytes += kept;
  const auto own = LargestBatch(memory, device_bytes);
  const auto less = LargestBatch(collecting, device_bytes);
  const auto of_mean = [](const MemoryResult& of) {
    return of.ranks.front().peak_bytes /
           std::max(1.0, SpreadOf(of, &RankMemory::peak_bytes).mean);
  };
  std::string text = absl::StrFormat(
      "The root of gather_broadcast needs %.2f times the mean memory of the "
      "workers: it adds gradients to its own as they come. Derived: one that "
      "first collected all of them would need %.1f MB more, %.2f times the "
      "mean",
      of_mean(memory), kept / kMegabyte, of_mean(collecting));
  if (own.value_or(0) > 0 && less.has_value()) {
    absl::StrAppend(&text, ", and fit ", *less, " samples in place of ", *own);
  }
  findings.push_back(absl::StrCat(
      text,
      ". DataParallel also keeps the optimizer's state and the outputs "
      "of all samples on the root alone, which no mode here does."));
}

void AddMemory(const Comparison& comparison,
               std::vector<std::string>& findings) {
  const double device = comparison.conditions.device_memory_bytes;
  for (const MemoryResult& memory : comparison.memories) {
    if (!memory.is_ok() || memory.mode.name != "gather_broadcast" ||
        memory.ranks.empty()) {
      continue;
    }
    const RunResult* run = Find(comparison, memory.mode.name, memory.workers);
    if (run != nullptr)
      AddCollectingRoot(memory, run->gradient_bytes, device, findings);
  }
}

// A sentence a variation, with all numbers of workers.
void AddVariations(const Comparison& comparison, const Comparison& medians,
                   std::vector<std::string>& findings) {
  std::vector<std::pair<std::string, std::string>> sentences;
  for (const RunResult& run : medians.runs) {
    if (!run.is_ok() || run.variant.empty()) continue;
    const RunResult* plain = Find(medians, run.mode.name, run.workers);
    if (plain == nullptr || plain->samples_per_second <= 0) continue;
    auto known = std::find_if(
        sentences.begin(), sentences.end(),
        [&](const auto& sentence) { return sentence.first == run.label(); });
    const bool is_first = known == sentences.end();
    if (is_first) {
      sentences.emplace_back(
          run.label(),
          run.label() + ", samples a second against the job as it is: ");
      known = sentences.end() - 1;
    }
    const bool is_apart = AreApart(FigureOf(comparison, run, SamplesOf),
                                   FigureOf(comparison, *plain, SamplesOf));
    absl::StrAppend(
        &known->second, is_first ? "" : ", ",
        is_apart ? Change(run.samples_per_second / plain->samples_per_second)
                 : "no difference beyond that of repeats",
        " with ", run.workers, is_first ? " workers" : "");
  }
  for (const auto& [label, text] : sentences) findings.push_back(text + ".");
}

void AddPredictions(const Comparison& comparison,
                    std::vector<std::string>& findings) {
  const PredictionErrors errors = ErrorsOf(comparison);
  if (errors.runs == 0) return;
  findings.push_back(
      errors.runs == 1
          ? absl::StrFormat("The prediction of one run's step was %.0f %% off.",
                            100 * errors.largest)
          : absl::StrFormat("Predictions of the step were %.0f %% off in the "
                            "median of %d runs, %.0f %% at most.",
                            100 * errors.median, errors.runs,
                            100 * errors.largest));
}

void AddStaleness(const Comparison& comparison,
                  std::vector<std::string>& findings) {
  for (const RunResult& run : comparison.runs) {
    int64_t sum = 0;
    for (const int64_t count : run.staleness) sum += count;
    if (!run.is_ok() || sum == 0) continue;
    std::string text = absl::StrCat(
        run.label(), ", ", run.workers,
        " workers: of the answers of servers, those to a worker that was ");
    const char* separator = "";
    for (size_t ahead = 0; ahead < run.staleness.size(); ++ahead) {
      if (run.staleness[ahead] == 0) continue;
      absl::StrAppend(
          &text, separator, ahead,
          ahead + 1 == kStalenessBins ? " and more" : "",
          *separator == '\0' ? " steps ahead of the slowest were " : ": ",
          absl::StrFormat("%.0f %%",
                          100.0 * static_cast<double>(run.staleness[ahead]) /
                              static_cast<double>(sum)));
      separator = ", ";
    }
    findings.push_back(text + ".");
  }
}

}  // namespace

std::vector<std::string> FindingsOf(const Comparison& comparison) {
  const Comparison medians = MediansOf(comparison);
  std::vector<std::string> findings;
  const std::set<int> counts = WorkerCounts(medians);
  for (const int workers : counts)
    AddFastest(comparison, medians, workers, findings);
  if (counts.size() > 1)
    AddGrowth(medians, *counts.begin(), *counts.rbegin(), findings);
  if (!counts.empty())
    AddGatherBroadcast(comparison, medians, *counts.rbegin(), findings);
  AddMemory(medians, findings);
  AddVariations(comparison, medians, findings);
  AddStaleness(medians, findings);
  AddPredictions(medians, findings);
  return findings;
}

}  // namespace ringmaster::ctl
