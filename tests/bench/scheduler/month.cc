// Simulates a month of a shared pool under several policies, with the coordinator's
// real core for ours; see month_trace.h. docs/benchmarks/scheduler.md has the results.
//   month [SEED]
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
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

// ---- Two teams: one submits four fifths of the jobs, and together they want more than
// there is.

constexpr int kBusyQuota = 48;
constexpr int kSmallQuota = 16;

void PrintTeams(const std::string& policy, const std::vector<TraceJob>& jobs,
                const MonthResult& result) {
  std::vector<double> hours[2];
  for (size_t i = 0; i < jobs.size(); ++i) {
    hours[jobs[i].team].push_back(absl::ToDoubleHours(result.completion[i]));
  }
  std::cout << absl::StrFormat("| %s | %.2f | %.2f | %d |\n", policy,
                               Mean(hours[0]), Mean(hours[1]),
                               result.preemptions);
}

v1::QueueFile Queues(int busy_quota, int small_quota) {
  v1::QueueFile file;
  for (const auto& [name, quota] :
       {std::pair("busy", busy_quota), std::pair("small", small_quota)}) {
    v1::QueueSpec& queue = *file.add_queues();
    queue.set_name(name);
    queue.set_workers(quota);
  }
  return file;
}

// Each team has a pool of its own.
MonthResult RunApart(const TraceOptions& options,
                     const std::vector<TraceJob>& jobs) {
  MonthResult all;
  all.completion.resize(jobs.size());
  for (const int team : {0, 1}) {
    TraceOptions own = options;
    own.workers = team == 0 ? kBusyQuota : kSmallQuota;
    std::vector<TraceJob> its_jobs;
    std::vector<size_t> indices;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].team != team) continue;
      its_jobs.push_back(jobs[i]);
      indices.push_back(i);
    }
    const MonthResult result = RunCore(own, its_jobs, {});
    for (size_t i = 0; i < indices.size(); ++i) {
      all.completion[indices[i]] = result.completion[i];
    }
    all.preemptions += result.preemptions;
  }
  return all;
}

void CompareTeams(TraceOptions options) {
  options.load = 1.05;
  std::vector<TraceJob> jobs = MakeTrace(options);
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].team = i % 5 == 0 ? 1 : 0;
  std::cout << "\n| two teams | busy team, mean, h | small team, mean, h | "
               "preemptions |\n|---|---|---|---|\n";
  PrintTeams("one line for all", jobs, RunCore(options, jobs, {}));
  PrintTeams("pools of 48 and 16 workers", jobs, RunApart(options, jobs));
  PrintTeams(
      "quotas of 48 and 16", jobs,
      RunCore(options, jobs, {.queues = Queues(kBusyQuota, kSmallQuota)}));
  PrintTeams("no quotas, equal weights", jobs,
             RunCore(options, jobs, {.queues = Queues(0, 0)}));
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
  CompareTeams(options);
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
