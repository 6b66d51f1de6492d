// The figures of `ringctl bench allreduce`, and of a job that measures, as
// text, a line a size, and as JSON.
//
// Pure. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_

#include <string>
#include <utility>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster::ctl {

// The setting of a measurement: what was measured, and where.
struct BenchSetting {
  AllReduceBenchOptions options;
  AllReduceBenchStart start;
  // The place, by name: "processor", "cores"; or "job", "hosts".
  std::vector<std::pair<std::string, std::string>> place;
  // The word for ranks: "processes", "workers".
  std::string ranks_are = "processes";
};

// Place, ranks, transport, limit, what the columns mean; then their titles.
[[nodiscard]] std::vector<std::string> BenchHeadLines(
    const BenchSetting& setting);

// A row under the titles.
[[nodiscard]] std::string BenchRowLine(const BenchSetting& setting,
                                       const AllReduceBenchRow& row);

// The whole as one JSON document.
[[nodiscard]] std::string BenchJson(const BenchSetting& setting,
                                    const std::vector<AllReduceBenchRow>& rows);

// ---- Of a job whose program is a benchmark.

[[nodiscard]] BenchSetting SettingOf(const v1::Job& job);
[[nodiscard]] std::vector<AllReduceBenchRow> BenchRowsOf(const v1::Job& job);
// The whole table as far as there are figures; nothing if there are none.
[[nodiscard]] std::vector<std::string> BenchTable(const v1::Job& job);
[[nodiscard]] std::string BenchJson(const v1::Job& job);
// "all-reduce of 8 sizes, 4096 to 67108864 bytes, float32, sum".
[[nodiscard]] std::string BenchProgramText(const v1::BenchProgram& program);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_BENCH_VIEW_H_
