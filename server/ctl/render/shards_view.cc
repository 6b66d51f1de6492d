#include "server/ctl/render/shards_view.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/job_staleness.h"
#include "common/parameter_server/staleness.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
std::string StalenessLine(const v1::Job& job) {
  const std::vector<int64_t> counts = StalenessOf(job);
  const auto all = static_cast<double>(
      std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  if (all <= 0) return "";
  std::string line = "staleness ";
  const char* separator = "";
  for (size_t ahead = 0; ahead < counts.size(); ++ahead) {
    if (counts[ahead] <= 0) continue;
    absl::StrAppend(&line, separator, ahead,
                    ahead + 1 == kStalenessBins ? " and more: " : ": ",
                    FormatPercent(static_cast<double>(counts[ahead]) / all));
    separator = ", ";
  }
  const v1::ParameterServerSpec& spec = job.spec().train().parameter_server();
  return absl::StrCat(line,
                      spec.consistency() == v1::CONSISTENCY_SSP
                          ? absl::StrCat(" (bound ", spec.staleness(), ")")
                          : std::string(" (no bound)"));
}

std::string PhaseCell(const v1::Member& member) {
  if (member.phase() == v1::PHASE_UNSPECIFIED) return "-";
  std::string cell(NameOf(member.phase()));
  if (member.has_waiting_for_rank())
    absl::StrAppend(&cell, ", waits for rank ", member.waiting_for_rank());
  return cell;
}

}  // namespace ringmaster::ctl
