// The measurement that all programs of this benchmark share, so that the same rules hold for all candidates: they take
// turns, inputs are refilled and every element of every result is checked on every call, a call's time is the slowest
// rank's, and the machine is probed before and after.
#ifndef RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_MEASURE_H_
#define RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_MEASURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/allreduce_vs_peers/candidate.h"
#include "tests/bench/allreduce_vs_peers/shared_page.h"

namespace ringmaster {

struct BenchRank {
  SharedPage& page;
  int rank = 0;
  int world_size = 1;
};

// Bytes of buffers of float32 from texts such as "4K" and "64M". INVALID_ARGUMENT
// names the text that is none.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> SizesOf(
    const std::vector<std::string>& texts);

// Every candidate once at every size, in turn. Rank 0 prints a line of JSON for each:
//   {"name": "...", "ranks": 2, "bytes": 4096, "seconds": the median over calls of the slowest rank's time,
//    "best": the least of them, "cpu_seconds": of this rank a call, "probe_ns": the worse of the two}
// INTERNAL: a candidate gave a wrong sum.
[[nodiscard]] absl::Status MeasureAll(const BenchRank& self,
                                      const Candidates& candidates,
                                      const std::vector<int64_t>& sizes);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_MEASURE_H_
