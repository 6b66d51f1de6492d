#include "tests/bench/scheduler/month_trace.h"

#include <algorithm>
#include <numbers>
#include <random>

namespace ringmaster {
namespace {

constexpr absl::Duration kLongest = absl::Hours(24 * 4);

// How many are submitted at that time, relative to the most.
double Activity(absl::Duration time) {
  const double day = absl::ToDoubleHours(time) / 24;
  const double by_day = 0.625 - 0.375 * std::cos(2 * std::numbers::pi * day);
  return static_cast<int>(day) % 7 < 5 ? by_day : by_day / 2;
}

int DrawSize(std::mt19937_64& random) {
  std::discrete_distribution<int> exponent({50, 17, 17, 12, 4});
  return 1 << exponent(random);
}

}  // namespace

std::vector<TraceJob> MakeTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::lognormal_distribution<double> length(0, 1.6);
  std::vector<TraceJob> jobs;
  while (static_cast<int>(jobs.size()) < options.jobs) {
    const absl::Duration time = options.time * uniform(random);
    if (uniform(random) > Activity(time)) continue;
    TraceJob job;
    job.submitted = time;
    job.size = DrawSize(random);
    job.duration = absl::Seconds(length(random));
    job.is_urgent = uniform(random) < 0.1;
    jobs.push_back(job);
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return a.submitted < b.submitted;
  });
  // Scaled to the load, as far as the longest allow.
  const double wanted =
      options.load * options.workers * absl::ToDoubleSeconds(options.time);
  for (int round = 0; round < 8; ++round) {
    double work = 0;
    for (const TraceJob& job : jobs) {
      work += job.size * absl::ToDoubleSeconds(job.duration);
    }
    for (TraceJob& job : jobs) {
      job.duration = std::min(kLongest, job.duration * (wanted / work));
    }
  }
  for (TraceJob& job : jobs) {
    job.duration = std::max(absl::Seconds(10),
                            absl::Trunc(job.duration, absl::Seconds(1)));
  }
  return jobs;
}

}  // namespace ringmaster
