// A benchmark and its figures as messages of the protocol, and back. Pure.
#ifndef RINGMASTER_WORKER_BENCH_BENCH_PROGRAM_H_
#define RINGMASTER_WORKER_BENCH_BENCH_PROGRAM_H_

#include "absl/status/statusor.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster {

namespace v1 {
class BenchFigures;
class BenchProgram;
}  // namespace v1

// Returns the options that `given` asks of `ranks`, by DefaultProgram's rules.
//   INVALID_ARGUMENT  names the field
[[nodiscard]] absl::StatusOr<AllReduceBenchOptions> ParseBenchProgram(
    const v1::BenchProgram& given, int ranks);

// The inverse. Sizes become whole elements.
void FillBenchProgram(const AllReduceBenchOptions& options,
                      v1::BenchProgram& program);

void FillBenchFigures(const AllReduceBenchFigures& figures,
                      v1::BenchFigures& message);

// The inverse. Values that this build does not know become the default.
[[nodiscard]] AllReduceBenchFigures BenchFiguresFrom(
    const v1::BenchFigures& message);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_BENCH_PROGRAM_H_
