// BenchLines tells what is new in the figures of a job's benchmark, as lines
// that stay.
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
  // The head of the table, before the first row, and rows that were not there
  // before; where a benchmark has begun anew, a line that says so. Nothing of a
  // job that is no benchmark.
  [[nodiscard]] std::vector<std::string> Take(const v1::Job& job);

 private:
  bool has_head_ = false;
  std::vector<AllReduceBenchRow> told_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_BENCH_LINES_H_
