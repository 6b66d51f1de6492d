#include "server/ctl/render/shards_view.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// The last of so many counts all that were further ahead.
constexpr size_t kMostCounts = 16;

}  // namespace

std::string StalenessLine(const v1::Job& job) {
  std::vector<double> counts;
  double all = 0;
  for (const v1::Member& member : job.members()) {
    const auto& of_member = member.figures().staleness();
    const auto size = static_cast<size_t>(of_member.size());
    if (counts.size() < size) counts.resize(size, 0);
    for (size_t ahead = 0; ahead < size; ++ahead) {
      const auto count =
          static_cast<double>(of_member.Get(static_cast<int>(ahead)));
      counts[ahead] += count;
      all += count;
    }
  }
  if (all <= 0) return "";
  std::string line = "staleness ";
  const char* separator = "";
  for (size_t ahead = 0; ahead < counts.size(); ++ahead) {
    if (counts[ahead] <= 0) continue;
    absl::StrAppend(&line, separator, ahead,
                    ahead + 1 == kMostCounts ? " and more: " : ": ",
                    FormatPercent(counts[ahead] / all));
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
