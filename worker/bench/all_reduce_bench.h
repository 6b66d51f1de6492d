// AllReduceBench measures all-reduce between processes of this machine, over
// the same connections and with the same code as a job's, without a
// coordinator.
//
// Linux only. Thread-compatible; start it while the process has no other
// threads (ForkedRanks).
// Example:
//   ASSIGN_OR_RETURN(auto bench, AllReduceBench::Start(options));
//   ASSIGN_OR_RETURN(const AllReduceBenchStart start,
//                    bench->AwaitStart(stop_fd));
//   while (true) {
//     ASSIGN_OR_RETURN(const auto row, bench->NextRow(stop_fd));
//     if (!row.has_value()) break;
//     Print(*row);
//   }
#ifndef RINGMASTER_WORKER_BENCH_ALL_REDUCE_BENCH_H_
#define RINGMASTER_WORKER_BENCH_ALL_REDUCE_BENCH_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/bench/forked_ranks.h"

namespace ringmaster {

class AllReduceBench {
 public:
  // Starts the ranks.
  //   INVALID_ARGUMENT    CheckAllReduceBench
  //   RESOURCE_EXHAUSTED  CheckBenchMemory
  //   UNAVAILABLE         no listeners or processes to be had
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AllReduceBench>> Start(
      const AllReduceBenchOptions& options);

  // Returns what the ranks found before the first size. Call it first. Errors
  // of this and of NextRow are those of ForkedRanks::Next and MeasureAllReduce.
  [[nodiscard]] absl::StatusOr<AllReduceBenchStart> AwaitStart(int stop_fd);

  // Returns the next size's figures, in the order of the options; nothing after
  // the last one.
  [[nodiscard]] absl::StatusOr<std::optional<AllReduceBenchRow>> NextRow(
      int stop_fd);

 private:
  AllReduceBench(size_t sizes, std::unique_ptr<ForkedRanks> processes)
      : sizes_(sizes), processes_(std::move(processes)) {}

  const size_t sizes_;
  size_t rows_ = 0;  // so far
  const std::unique_ptr<ForkedRanks> processes_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_ALL_REDUCE_BENCH_H_
