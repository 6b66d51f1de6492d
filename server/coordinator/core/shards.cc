#include "server/coordinator/core/shards.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/shard_placing.h"
#include "server/coordinator/core/turn.h"

namespace ringmaster::coordinator {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int64_t>::max();

// Whether a copy of `complete_step` can go on after `resume_step`.
bool CanResume(const Job& job, int64_t complete_step, int64_t resume_step) {
  return complete_step >= resume_step &&
         (!job.sharding.is_lockstep || complete_step <= resume_step + 1);
}

// Calls `visit` for each copy that a halted member tells of.
template <typename Visit>
void ForEachCopy(const Job& job, const Visit& visit) {
  for (const Member& member : job.members) {
    if (member.is_lost || !member.halted.has_value()) continue;
    for (const HeldShard& held : member.halted->shards) visit(member, held);
  }
}

}  // namespace

std::optional<int64_t> CommonShardStep(const Job& job, int64_t applied_step) {
  int64_t least = kNoStep;
  ForEachCopy(job, [&](const Member&, const HeldShard& held) {
    if (job.sharding.is_lockstep && held.complete_step < applied_step) return;
    least = std::min(least, held.complete_step);
  });
  if (least == kNoStep) return std::nullopt;
  std::vector<bool> is_held(static_cast<size_t>(job.sharding.shards), false);
  ForEachCopy(job, [&](const Member&, const HeldShard& held) {
    if (CanResume(job, held.complete_step, least)) {
      is_held[static_cast<size_t>(held.shard)] = true;
    }
  });
  const bool is_whole =
      std::find(is_held.begin(), is_held.end(), false) == is_held.end();
  return is_whole ? std::optional(least) : std::nullopt;
}

std::shared_ptr<const std::vector<ShardPlacement>> PlaceShardsOf(
    const Job& job, const std::vector<MemberIdentity>& members,
    std::optional<int64_t> resume_step) {
  if (job.sharding.shards == 0) return nullptr;
  std::vector<ShardHolder> hosts;
  std::map<std::string_view, int> index_of;
  for (const MemberIdentity& member : members) {
    if (!HoldsShards(job, member.role)) continue;
    index_of.emplace(member.worker, static_cast<int>(hosts.size()));
    hosts.push_back({member.rank, member.host_key});
  }
  std::vector<ShardCopies> shards(static_cast<size_t>(job.sharding.shards));
  if (resume_step.has_value()) {
    ForEachCopy(job, [&](const Member& member, const HeldShard& held) {
      const auto it = index_of.find(member.identity.worker);
      if (it != index_of.end() &&
          CanResume(job, held.complete_step, *resume_step)) {
        shards[static_cast<size_t>(held.shard)].holders.push_back(it->second);
      }
    });
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    std::sort(shards[i].holders.begin(), shards[i].holders.end());
    if (job.placements == nullptr) continue;
    const auto rank = static_cast<size_t>((*job.placements)[i].primary_rank);
    if (rank >= job.members.size() || job.members[rank].is_lost) continue;
    const auto it = index_of.find(job.members[rank].identity.worker);
    if (it != index_of.end()) shards[i].primary = it->second;
  }
  return std::make_shared<const std::vector<ShardPlacement>>(
      PlaceShards(hosts, shards, job.sharding.replicas));
}

std::string ShardHoldersText(const Job& job, int64_t step) {
  constexpr size_t kMostShown = 8;
  std::string text =
      absl::StrCat("all shards as of step ", step, " are held by ");
  size_t shown = 0;
  for (const Member& member : job.members) {
    if (member.is_lost || !member.halted.has_value() ||
        member.halted->shards.empty()) {
      continue;
    }
    if (shown++ == kMostShown) return absl::StrCat(text, ", ...");
    absl::StrAppend(
        &text, shown == 1 ? "" : ", ", Sv(NameOf(member.identity.role)), " ",
        member.identity.worker, " (rank ", member.identity.rank, ")");
  }
  return text;
}

}  // namespace ringmaster::coordinator
