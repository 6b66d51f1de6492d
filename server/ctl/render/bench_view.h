// The figures of `ringctl bench allreduce` as text, a line a size, and as JSON.
//
// Pure. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_

#include <string>
#include <vector>

#include "worker/bench/all_reduce_options.h"

namespace ringmaster::ctl {

// What was measured where.
struct BenchSetting {
  AllReduceBenchOptions options;
  AllReduceBenchStart start;
  std::string processor;  // the name of its model
  int cores = 0;          // that this process may use
};

// Machine, ranks, transport, memory, what the columns mean; then their titles.
[[nodiscard]] std::vector<std::string> BenchHeadLines(
    const BenchSetting& setting);

// A row under the titles.
[[nodiscard]] std::string BenchRowLine(const BenchSetting& setting,
                                       const AllReduceBenchRow& row);

// The whole as one JSON document.
[[nodiscard]] std::string BenchJson(const BenchSetting& setting,
                                    const std::vector<AllReduceBenchRow>& rows);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_
