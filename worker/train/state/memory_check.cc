#include "worker/train/state/memory_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster {
namespace {

std::string InMegabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

absl::Status CheckMemory(const std::vector<MemoryNeed>& needs,
                         int ranks_on_host, int64_t limit_bytes) {
  int64_t total = 0;
  std::string parts;
  for (const MemoryNeed& need : needs) {
    total += need.bytes;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", need.name, " ",
                    InMegabytes(need.bytes));
  }
  if (limit_bytes < 0 || total <= limit_bytes / ranks_on_host)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model does not fit in memory: a rank needs ", InMegabytes(total),
      " (", parts, "), and ", ranks_on_host,
      ranks_on_host == 1 ? " rank has " : " ranks share ",
      InMegabytes(limit_bytes),
      " on this host; take a smaller model, micro_batch or number of workers "
      "a host"));
}

}  // namespace ringmaster
