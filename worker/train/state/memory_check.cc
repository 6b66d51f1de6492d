#include "worker/train/state/memory_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/optimizer/optimizer.h"

namespace ringmaster {
namespace {

std::string InMegabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

int64_t TotalOf(const std::vector<MemoryNeed>& needs) {
  int64_t total = 0;
  for (const MemoryNeed& need : needs) total += need.bytes;
  return total;
}

}  // namespace

std::vector<MemoryNeed> MemoryNeedsOf(const ProgramConfig& config,
                                      const RankSizes& sizes) {
  const int64_t arena_bytes = sizes.arena_bytes;
  const bool has_servers = config.parameter_server.has_value();
  const int moments = MomentsOf(config.optimizer);
  std::vector<MemoryNeed> needs = {{"parameters", arena_bytes}};
  if (!sizes.has_accelerator || has_servers)
    needs.push_back({"gradients", arena_bytes});
  if (has_servers) {
    needs.push_back({"the next parameters", arena_bytes});
  } else {
    const int copies = std::min(1 + config.mirrors(), sizes.world_size);
    needs.push_back(
        {"moments", config.is_sharded()
                        ? moments * arena_bytes * copies / sizes.world_size
                        : moments * arena_bytes});
  }
  // One rank of a host has it.
  if (!config.program.checkpoint().directory().empty()) {
    needs.push_back({"its share of a checkpoint's copy",
                     (1 + moments) * arena_bytes / sizes.ranks_on_host});
    if (has_servers || config.is_sharded()) {
      needs.push_back({"its share of a checkpoint's moments",
                       moments * arena_bytes / sizes.ranks_on_host});
    }
  }
  if (sizes.activation_bytes > 0 && !sizes.has_accelerator)
    needs.push_back({"activations", sizes.activation_bytes});
  return needs;
}

std::string MemoryText(const std::vector<MemoryNeed>& needs) {
  std::string parts;
  for (const MemoryNeed& need : needs) {
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", need.name, " ",
                    InMegabytes(need.bytes));
  }
  return absl::StrCat(InMegabytes(TotalOf(needs)), " (", parts, ")");
}

absl::Status CheckMemory(const std::vector<MemoryNeed>& needs,
                         int ranks_on_host, int64_t limit_bytes) {
  if (limit_bytes < 0 || TotalOf(needs) <= limit_bytes / ranks_on_host)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model does not fit in memory: a rank needs ", MemoryText(needs),
      ", and ", ranks_on_host,
      ranks_on_host == 1 ? " rank has " : " ranks share ",
      InMegabytes(limit_bytes),
      " on this host; take a smaller model, micro_batch or number of workers "
      "a host"));
}

}  // namespace ringmaster
