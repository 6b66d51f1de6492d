// Rows that benchmarks print, and what they are made of.
//
// Thread-safety: pure functions, except for PrintRow, which writes to standard
// output.
#ifndef RINGMASTER_TESTS_GPU_ROWS_BENCH_ROW_H_
#define RINGMASTER_TESTS_GPU_ROWS_BENCH_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster {

// See tests/gpu/benchmarks.py.
struct BenchRow {
  std::string what;
  std::string unit;
  std::optional<double> ours;  // none: "not run", for the reason in `note`
  std::optional<double> peer;
  std::string peer_name = {};
  std::string note = {};
};

// A line of JSON.
[[nodiscard]] std::string ToJson(const BenchRow& row);
void PrintRow(const BenchRow& row);

// Returns the median of at least one value; of an even number, the mean of the
// middle two.
[[nodiscard]] double Median(std::vector<double> values);

// "1 KiB", "256 MiB", "1000 B": the largest unit in which it is whole.
[[nodiscard]] std::string BytesText(int64_t bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_ROWS_BENCH_ROW_H_
