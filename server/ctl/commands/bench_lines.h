// BenchLines returns the new figures of a job's benchmark, as lines that stay.
//
// Thread-compatible.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_BENCH_LINES_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_BENCH_LINES_H_

#include <string>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster::ctl {

class BenchLines {
 public:
  // Returns the head of the table, before the first row, and the rows that are
  // new; if the benchmark has started again, a line that says so. Empty for a
  // job that is not a benchmark.
  [[nodiscard]] std::vector<std::string> Take(const v1::Job& job);

 private:
  bool has_head_ = false;
  std::vector<AllReduceBenchRow> told_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_BENCH_LINES_H_
