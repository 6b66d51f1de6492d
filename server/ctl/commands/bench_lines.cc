#include "server/ctl/commands/bench_lines.h"

#include <algorithm>
#include <utility>

#include "server/ctl/render/bench_view.h"

namespace ringmaster::ctl {
namespace {

// A time is never the same twice.
bool IsSame(const AllReduceBenchRow& a, const AllReduceBenchRow& b) {
  return a.bytes == b.bytes && a.p50 == b.p50 && a.p99 == b.p99;
}

}  // namespace

std::vector<std::string> BenchLines::Take(const v1::Job& job) {
  std::vector<std::string> lines;
  if (!job.has_bench()) return lines;
  const BenchSetting setting = SettingOf(job);
  const std::vector<AllReduceBenchRow> rows = BenchRowsOf(job);
  if (!std::exchange(has_head_, true)) lines = BenchHeadLines(setting);
  const bool goes_on =
      rows.size() >= told_.size() &&
      std::equal(told_.begin(), told_.end(), rows.begin(), IsSame);
  if (!goes_on) {
    told_.clear();
    lines.emplace_back("# measured anew, from the first size on");
  }
  for (size_t i = told_.size(); i < rows.size(); ++i)
    lines.push_back(BenchRowLine(setting, rows[i]));
  told_ = rows;
  return lines;
}

}  // namespace ringmaster::ctl
