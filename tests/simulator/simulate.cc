// simulate: runs simulated clusters, seed after seed, until one breaks an
// invariant.
//
//   simulate --seeds=1..10000 [--jobs=2] [--bug=NAME] [--all] [--verbose]
//
// Exit code 1: a violation; its seed, the invariant, the last events and the
// command that shows them again are printed. --all goes on after it and prints
// a line for each seed that breaks something. --verbose prints all events of
// each seed.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/simulator/batch.h"
#include "tests/simulator/simulation.h"

namespace ringmaster::simulator {
namespace {

struct Flags {
  uint64_t first = 1;
  uint64_t last = 1000;
  int jobs = 1;
  Bug bug = Bug::kNone;
  std::string_view bug_name = "none";
  bool is_verbose = false;
  bool goes_on = false;
};

bool ParseNumber(std::string_view text, uint64_t& value) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseSeeds(std::string_view text, Flags& flags) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    return ParseNumber(text, flags.first) && ParseNumber(text, flags.last);
  }
  return ParseNumber(text.substr(0, dots), flags.first) &&
         ParseNumber(text.substr(dots + 2), flags.last);
}

bool ParseFlag(std::string_view flag, Flags& flags) {
  const auto value = [&flag](std::string_view name) {
    const bool is_it = flag.substr(0, name.size()) == name;
    return is_it ? std::optional(flag.substr(name.size())) : std::nullopt;
  };
  if (const auto text = value("--seeds=")) return ParseSeeds(*text, flags);
  if (const auto text = value("--jobs=")) {
    uint64_t jobs = 0;
    if (!ParseNumber(*text, jobs) || jobs < 1 || jobs > 64) return false;
    flags.jobs = static_cast<int>(jobs);
    return true;
  }
  if (const auto text = value("--bug=")) {
    const std::optional<Bug> bug = FindBug(*text);
    flags.bug = bug.value_or(Bug::kNone);
    flags.bug_name = *text;
    return bug.has_value();
  }
  flags.is_verbose |= flag == "--verbose";
  flags.goes_on |= flag == "--all";
  return flag == "--verbose" || flag == "--all";
}

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

int Simulate(const Flags& flags) {
  if (flags.is_verbose) {
    for (uint64_t seed = flags.first; seed <= flags.last; ++seed) {
      const RunResult result = RunSeed(
          seed, {.bug = flags.bug, .is_traced = true, .max_lines = 10'000'000});
      absl::PrintF("seed %d\n", seed);
      PrintLines(result);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  BatchResult batch = RunSeeds(flags.first, flags.last, flags.jobs,
                               {.bug = flags.bug}, flags.goes_on);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  std::sort(batch.recoveries.begin(), batch.recoveries.end());
  PrintTotals(batch, seconds.count());
  if (!batch.violation.has_value()) return 0;
  if (flags.goes_on) {
    std::sort(batch.all.begin(), batch.all.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [seed, violation] : batch.all) {
      absl::PrintF("seed %d: %s: %s\n", seed, NumberOf(violation.invariant),
                   violation.text);
    }
    return 1;
  }
  const RunResult again =
      RunSeed(batch.failed_seed,
              {.bug = flags.bug, .is_traced = true, .max_lines = 60});
  absl::PrintF("\nseed %d breaks %s:\n  %s\nthe last events:\n",
               batch.failed_seed, TextOf(batch.violation->invariant),
               batch.violation->text);
  PrintLines(again);
  absl::PrintF("again: simulate --seeds=%d..%d --bug=%s --verbose\n",
               batch.failed_seed, batch.failed_seed, flags.bug_name);
  return 1;
}

}  // namespace
}  // namespace ringmaster::simulator

int main(int argc, char** argv) {
  ringmaster::simulator::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (ringmaster::simulator::ParseFlag(argv[i], flags)) continue;
    absl::FPrintF(stderr,
                  "%s: not understood; usage: simulate [--seeds=A..B] "
                  "[--jobs=N] [--bug=NAME] [--all] [--verbose]\n",
                  argv[i]);
    return 2;
  }
  return ringmaster::simulator::Simulate(flags);
}
