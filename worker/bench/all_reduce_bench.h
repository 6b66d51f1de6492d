// AllReduceBench measures all-reduce between processes of this machine, over
// the same connections and with the same code as a job's, without a
// coordinator.
//
// In every iteration each rank refills its buffer, meets the others at a
// barrier, reduces (the timed part), and compares every element with the result.
//
// Linux only. Thread-compatible; to be started while the process has no other
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
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/all_reduce_options.h"
#include "worker/bench/forked_ranks.h"

namespace ringmaster {

class AllReduceBench {
 public:
  // Starts the ranks.
  //   INVALID_ARGUMENT    CheckAllReduceBench
  //   RESOURCE_EXHAUSTED  the machine has not the memory for the largest size
  //   UNAVAILABLE         no listeners or processes to be had
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AllReduceBench>> Start(
      const AllReduceBenchOptions& options);

  // What the ranks found before the first size. To be called first. Errors of
  // this and of NextRow: as of ForkedRanks::Next and RunAllReduceRank.
  [[nodiscard]] absl::StatusOr<AllReduceBenchStart> AwaitStart(int stop_fd);

  // The next size's figures, in the order of the options; nothing after the
  // last one.
  [[nodiscard]] absl::StatusOr<std::optional<AllReduceBenchRow>> NextRow(
      int stop_fd);

 private:
  AllReduceBench(int ranks, size_t sizes,
                 std::unique_ptr<ForkedRanks> processes)
      : ranks_(ranks), rows_(sizes), processes_(std::move(processes)) {}

  // A size's row, as far as the ranks have reported it.
  struct PartialRow {
    AllReduceBenchRow row;
    int reports = 0;
  };

  const int ranks_;
  std::vector<PartialRow> rows_;
  size_t next_ = 0;
  const std::unique_ptr<ForkedRanks> processes_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_ALL_REDUCE_BENCH_H_
