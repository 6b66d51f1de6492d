// `ringctl bench allreduce` measures how fast processes of this machine reduce,
// over the same connections as ranks of a job, without a coordinator. For the
// workers of a coordinator see cluster_bench.h.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_BENCH_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_BENCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster::ctl {

// The flags as they were written.
struct BenchFlags {
  std::string what;
  // 0: as many as there are cores, at least 2; or idle workers
  int ranks = 0;
  std::string transport = "auto";
  int connections = 1;
  std::string algorithm = "auto";
  std::string dtype = "float32";
  std::string wire;  // "": as the dtype
  std::string op = "sum";
  std::string sizes = "4K:256M";
  int step = 4;
  int warmup = 5;
  int iterations = 20;
  absl::Duration seconds_per_size = absl::Seconds(2);
};

// Adds the command and its flags; `bench` must outlive the parsing.
void AddBenchFlags(FlagSet& flags, BenchFlags& bench);

// Returns the options that the flags ask for with `ranks`, not yet checked by
// CheckAllReduceBench. INVALID_ARGUMENT names the flag.
[[nodiscard]] absl::StatusOr<AllReduceBenchOptions> ToBenchOptions(
    const BenchFlags& flags, int ranks);

// The same for processes of this machine; checked.
[[nodiscard]] absl::StatusOr<AllReduceBenchOptions> ToLocalBenchOptions(
    const BenchFlags& flags);

// Measures and prints; a table grows by a line a size. The exit code, or
//   INTERNAL   some elements of a result were wrong: after the figures
//   CANCELLED  a signal came
//   others     as of AllReduceBench
// To be called while the process has one thread, the main one, and after
// Interrupts::Block.
[[nodiscard]] absl::StatusOr<int> RunBench(const BenchFlags& flags,
                                           OutputFormat format,
                                           Console& console);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_BENCH_H_
