// The charts of a comparison. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_CHARTS_H_
#define RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_CHARTS_H_

#include <optional>
#include <string>
#include <vector>

#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

struct NamedChart {
  std::string name;  // of its file, without ".svg"
  std::string svg;
  std::string caption;  // what it shows, and how to read it
};

// Returns those for which there are figures, medians over repeats with their
// ranges, in the report's order:
// "step_time", "variations", "throughput", "efficiency", "bytes", "memory",
// "cpu", "loss_time", "loss_samples", "prediction", "scale".
[[nodiscard]] std::vector<NamedChart> ChartsOf(const Comparison& comparison);

// The most that a rank sent or received in a step, and the mean of all ranks.
struct Load {
  double busiest = 0;
  double mean = 0;
};
// nullopt if NCCL moved them: it does not report bytes.
[[nodiscard]] std::optional<Load> BytesLoad(const RunResult& run);
[[nodiscard]] Load MemoryLoad(const RunResult& run);  // of the workers alone
[[nodiscard]] Load CpuLoad(const RunResult& run);     // seconds of a step

// Throughput of `run` as a share of perfect scaling from the best run with the
// fewest workers in `comparison`, which has medians; 0 without any.
[[nodiscard]] double EfficiencyOf(const Comparison& comparison,
                                  const RunResult& run);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_COMPARISON_CHARTS_H_
