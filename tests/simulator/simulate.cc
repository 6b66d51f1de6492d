// simulate: runs simulated clusters, seed after seed, until one breaks an
// invariant.
//
//   simulate --seeds=1..10000 [--jobs=2] [--holders=ranks|workers|servers]
//            [--bug=NAME] [--liar] [--many] [--all] [--verbose]
//
// --holders: who holds the parameters; by default, every rank all of them.
// --liar: one worker says what is not so.
// --many: two to four jobs share the workers.
// Exit code 1: a violation; its seed, the invariant, the last events and the
// command that shows them again are printed. --all goes on after it and prints
// a line for each seed that breaks something. --verbose prints all events of
// each seed, with one job. Exit code 2: an argument makes no sense.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/exit_code.h"
#include "tests/simulator/batch.h"
#include "tests/simulator/flags.h"
#include "tests/simulator/simulation.h"

namespace ringmaster::simulator {
namespace {

constexpr size_t kLastLines = 60;
constexpr size_t kAllLines = 10'000'000;

void PrintTotals(const BatchResult& batch, double seconds) {
  absl::PrintF(
      "%d seeds in %.2f s: %.0f seeds/s; %d events, %d commits, %d recoveries, "
      "%d rollbacks, %.0f virtual s\n",
      batch.seeds, seconds, static_cast<double>(batch.seeds) / seconds,
      batch.events, batch.commits, batch.recoveries.size(), batch.rollbacks,
      1e-9 * static_cast<double>(batch.duration));
  std::string faults;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    absl::StrAppend(&faults, kind == 0 ? "" : ", ",
                    std::string(NameOf(static_cast<FaultKind>(kind))), " ",
                    batch.faults[kind]);
  }
  absl::PrintF("faults: %s\n", faults);
  if (batch.recoveries.empty()) return;
  const auto at = [&](double quantile) {
    const auto index = static_cast<size_t>(
        quantile * static_cast<double>(batch.recoveries.size() - 1));
    return 1e-9 * static_cast<double>(batch.recoveries[index]);
  };
  absl::PrintF(
      "virtual time without a commit, per recovery: p50 %.2f s, "
      "p99 %.2f s, longest %.2f s\n",
      at(0.5), at(0.99), at(1.0));
}

void PrintLines(const RunResult& result) {
  for (const std::string& line : result.lines) absl::PrintF("%s\n", line);
}

void PrintViolations(BatchResult& batch) {
  std::sort(batch.all.begin(), batch.all.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [seed, violation] : batch.all) {
    absl::PrintF("seed %d: %s: %s\n", seed, NumberOf(violation.invariant),
                 violation.text);
  }
}

void PrintFirstViolation(const BatchResult& batch, const Flags& flags) {
  absl::PrintF("\nseed %d breaks %s:\n  %s\n", batch.failed_seed,
               TextOf(batch.violation->invariant), batch.violation->text);
  if (flags.is_verbose) return;  // its events are told already
  absl::PrintF("the last events:\n");
  PrintLines(RunSeed(batch.failed_seed, {.bug = flags.bug,
                                         .holders = flags.holders,
                                         .has_liar = flags.has_liar,
                                         .has_many_jobs = flags.has_many_jobs,
                                         .is_traced = true,
                                         .max_lines = kLastLines}));
  absl::PrintF(
      "again: simulate --seeds=%d..%d --holders=%s --bug=%s%s%s --verbose\n",
      batch.failed_seed, batch.failed_seed, NameOf(flags.holders),
      flags.bug_name, flags.has_liar ? " --liar" : "",
      flags.has_many_jobs ? " --many" : "");
}

int Simulate(const Flags& flags) {
  BatchOptions options = {.first = flags.first,
                          .last = flags.last,
                          .jobs = flags.jobs,
                          .run = {.bug = flags.bug,
                                  .holders = flags.holders,
                                  .has_liar = flags.has_liar,
                                  .has_many_jobs = flags.has_many_jobs},
                          .goes_on = flags.goes_on};
  if (flags.is_verbose) {
    options.jobs = 1;  // one story after the other
    options.run.is_traced = true;
    options.run.max_lines = kAllLines;
    options.on_run = [](uint64_t seed, const RunResult& run) {
      absl::PrintF("seed %d\n", seed);
      PrintLines(run);
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  BatchResult batch = RunSeeds(options);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  std::sort(batch.recoveries.begin(), batch.recoveries.end());
  PrintTotals(batch, seconds.count());
  if (!batch.violation.has_value()) return 0;
  if (flags.goes_on) {
    PrintViolations(batch);
  } else {
    PrintFirstViolation(batch, flags);
  }
  return 1;
}

}  // namespace
}  // namespace ringmaster::simulator

int main(int argc, char** argv) {
  const auto flags =
      ringmaster::simulator::ParseFlags(std::span(argv, argc).subspan(1));
  if (!flags.ok()) {
    absl::FPrintF(stderr, "simulate: %s\n",
                  std::string(flags.status().message()));
    return static_cast<int>(ringmaster::ExitCode::kUsage);
  }
  return ringmaster::simulator::Simulate(*flags);
}
