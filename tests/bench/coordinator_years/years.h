// Years: a coordinator's core, its journal and its events over a long virtual time,
// as members that do all that they are asked for keep them busy.
//
// The core is stepped with virtual time, one event after the other; records go to a
// real journal as well, which writes them as fast as it can. Members beat, make a
// step a second, and now and then one dies and comes back.
#ifndef RINGMASTER_TESTS_BENCH_COORDINATOR_YEARS_YEARS_H_
#define RINGMASTER_TESTS_BENCH_COORDINATOR_YEARS_YEARS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

struct YearsOptions {
  // Empty, and there.
  std::string state_dir;
  int members = 64;
  // One after the other, spread over `time`; each takes all members.
  int64_t jobs = 1;
  int64_t steps = 10;
  absl::Duration time = absl::Hours(1);
  absl::Duration failure_budget = absl::Seconds(2);
  absl::Duration beat_interval = absl::Seconds(1);
  // From one death to the next.
  absl::Duration death_interval = absl::Minutes(1);
};

struct YearsResult {
  int64_t events = 0;
  int64_t succeeded = 0;
  int64_t deaths = 0;
  // The database and its log; the most that was seen.
  int64_t journal_bytes = 0;
  // The most that the process ever had.
  int64_t resident_bytes = 0;
  // Processor time of building and serializing a status.
  absl::Duration status_p99;
  // The time that this took, others on the machine included.
  absl::Duration status_clock_p99;
  int64_t status_bytes = 0;
};

[[nodiscard]] absl::StatusOr<YearsResult> RunYears(const YearsOptions& options);

// "64 members, 100000 jobs in 720h: 55.2 MiB resident, ...", a line.
[[nodiscard]] std::string ToText(const YearsOptions& options,
                                 const YearsResult& result);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_COORDINATOR_YEARS_YEARS_H_
