// A made-up month of a shared pool: who submits what, and when.
//
// Published traces of such clusters (Philly: Jeon et al., USENIX ATC 2019; Helios: Hu et
// al., SC 2021) agree on this much: most jobs are small and short, a few large and long
// ones take most of the time, people submit by day, and sizes are powers of two. So:
//   arrivals    a Poisson process, by day up to four times as many as by night, at
//               weekends half as many
//   sizes       1, 2, 4, 8, 16 workers in 50, 17, 17, 12, 4 of 100 jobs
//   durations   log-normal, sigma 1.6, at most four days on as many workers as asked for;
//               the median follows from the load that is wanted
//   urgent      one of ten has a higher priority
#ifndef RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_TRACE_H_
#define RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_TRACE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace ringmaster {

struct TraceOptions {
  uint64_t seed = 1;
  int workers = 64;
  // The work of all jobs as a share of what the pool could do meanwhile.
  double load = 0.85;
  absl::Duration time = absl::Hours(24 * 30);
  int jobs = 3000;
};

struct TraceJob {
  absl::Duration submitted;  // since the beginning
  // As many workers as its author asks for, and how long it takes with these.
  int size = 1;
  absl::Duration duration;
  bool is_urgent = false;
  // The index of the team that submits it.
  int team = 0;
};

// In the order of their submission. The same options make the same jobs.
[[nodiscard]] std::vector<TraceJob> MakeTrace(const TraceOptions& options);

// Returns how fast a job of that `size` is with `workers`, as a multiple of its speed
// with as many as it asked for: each doubling brings 87 %.
[[nodiscard]] inline double SpeedOf(int workers, int size) {
  return std::pow(static_cast<double>(workers) / size, 0.9);
}

// The fate of the jobs under one policy.
struct MonthResult {
  // By job: from its submission to its end; infinite if it has not ended in a year.
  std::vector<absl::Duration> completion;
  // Workers' time for steps that are made twice, and in which a job stands still to
  // change its workers or to begin again.
  absl::Duration lost;
  // How often a job was stopped and went on later, or changed its size.
  int64_t preemptions = 0;
  int64_t resizes = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_SCHEDULER_MONTH_TRACE_H_
