// Simulates a month of a shared pool under several policies, with the coordinator's
// real core for ours; see month_trace.h. docs/benchmarks/scheduler.md has the results.
//   month [SEED]
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "tests/bench/scheduler/month_core.h"
#include "tests/bench/scheduler/month_peers.h"
#include "tests/bench/scheduler/month_trace.h"

namespace ringmaster {
namespace {

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void Print(const std::string& policy, const std::vector<TraceJob>& jobs,
           const MonthResult& result) {
  std::vector<double> hours;
  std::vector<double> urgent;
  std::vector<double> large;
  for (size_t i = 0; i < jobs.size(); ++i) {
    hours.push_back(absl::ToDoubleHours(result.completion[i]));
    if (jobs[i].is_urgent) urgent.push_back(hours.back());
    if (jobs[i].size == 16) large.push_back(hours.back());
  }
  std::sort(hours.begin(), hours.end());
  std::cout << absl::StrFormat(
      "| %s | %.2f | %.2f | %.1f | %.2f | %.2f | %.0f | %d | %d |\n", policy,
      Mean(hours), hours[hours.size() / 2], hours[hours.size() * 95 / 100],
      Mean(large), Mean(urgent), absl::ToDoubleHours(result.lost),
      result.preemptions, result.resizes);
}

int Main(int argc, char** argv) {
  TraceOptions options;
  if (argc > 2 || (argc == 2 && !absl::SimpleAtoi(argv[1], &options.seed))) {
    std::cerr << "usage: month [SEED]\n";
    return 2;
  }
  const std::vector<TraceJob> jobs = MakeTrace(options);
  std::cout
      << "| policy | mean, h | median, h | p95, h | jobs of 16, mean, h | "
         "urgent jobs, mean, h | lost, worker-hours | preemptions | resizes |\n"
         "|---|---|---|---|---|---|---|---|---|\n";
  Print("FIFO", jobs, RunPeer(options, jobs, {}));
  Print("FIFO, others overtake", jobs,
        RunPeer(options, jobs, {.overtakes = true}));
  Print("backfill that knows how long each job takes", jobs,
        RunPeer(options, jobs, {.backfills = true}));
  Print("four partitions of 16, others overtake", jobs,
        RunPeer(options, jobs, {.partitions = 4, .overtakes = true}));
  Print("priorities, kill and restart", jobs,
        RunPeer(options, jobs, {.overtakes = true, .preempts = true}));
  Print("Ringmaster, rigid jobs", jobs, RunCore(options, jobs, {}));
  Print("Ringmaster, rigid jobs, --overtake_time=4h", jobs,
        RunCore(options, jobs, {.overtake_time = absl::Hours(4)}));
  Print("Ringmaster, a quarter to all of the size", jobs,
        RunCore(options, jobs, {.least_share = 4}));
  Print("Ringmaster, a quarter to twice the size", jobs,
        RunCore(options, jobs, {.least_share = 4, .most_share = 2}));
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
