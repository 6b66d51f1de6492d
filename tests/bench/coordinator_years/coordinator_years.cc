// Measures what a coordinator takes over a long time: memory, journal, and the time to
// build a status. docs/benchmarks/coordinator.md has the results.
//   coordinator_years hour    4,096 members for an hour, one of which dies each minute
//   coordinator_years minutes the same for five minutes, to see the time by the clock
//   coordinator_years days    100,000 jobs on 64 members in 30 days
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/bench/coordinator_years/years.h"

namespace ringmaster {
namespace {

int Main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  YearsOptions options;
  if (what == "hour") {
    options.members = 4096;
    options.steps = 3000;
  } else if (what == "minutes") {
    options.members = 4096;
    options.steps = 250;
    options.time = absl::Minutes(5);
  } else if (what == "days") {
    options.members = 64;
    options.jobs = 100'000;
    options.time = absl::Hours(30 * 24);
    options.failure_budget = absl::Minutes(5);
    options.beat_interval = absl::Minutes(1);
    options.death_interval = absl::Hours(1);
  } else {
    std::cerr << "usage: coordinator_years minutes|hour|days\n";
    return 2;
  }
  std::string directory =
      std::filesystem::temp_directory_path() / "years-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    std::cerr << directory << " cannot be made\n";
    return 1;
  }
  options.state_dir = directory;
  const absl::StatusOr<YearsResult> result = RunYears(options);
  std::filesystem::remove_all(directory);
  if (!result.ok()) {
    std::cerr << "error: " << result.status() << "\n";
    return 1;
  }
  std::cout << ToText(options, *result) << "\n";
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
