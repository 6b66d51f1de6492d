#include "server/coordinator/core/placement/shards.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/placement/shard_placing.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int64_t>::max();

// Returns true if a copy at `complete_step` can resume after `resume_step`.
bool CanResume(const Job& job, int64_t complete_step, int64_t resume_step) {
  return complete_step >= resume_step &&
         (!job.sharding.is_lockstep || complete_step <= resume_step + 1);
}

// Calls `visit` for each copy that `accept` takes and that counts.
template <typename Accept, typename Visit>
void ForEachCopy(const Job& job, const Accept& accept, const Visit& visit) {
  std::vector<bool> is_held(static_cast<size_t>(job.sharding.shards), false);
  const auto for_each = [&](std::vector<HeldShard> HaltedAnswer::*copies,
                            const auto& each) {
    for (const Member& member : job.members) {
      if (member.is_lost || !member.halted.has_value()) continue;
      for (const HeldShard& held : (*member.halted).*copies) {
        if (accept(held)) each(member, held);
      }
    }
  };
  for_each(&HaltedAnswer::shards, [&](const Member& member, const auto& held) {
    is_held[static_cast<size_t>(held.shard)] = true;
    visit(member, held);
  });
  for_each(&HaltedAnswer::given_shards,
           [&](const Member& member, const auto& held) {
             if (!is_held[static_cast<size_t>(held.shard)]) visit(member, held);
           });
}

}  // namespace

std::optional<int64_t> CommonShardStep(const Job& job, int64_t applied_step) {
  const auto accept = [&](const HeldShard& held) {
    return !job.sharding.is_lockstep || held.complete_step >= applied_step;
  };
  int64_t least = kNoStep;
  ForEachCopy(job, accept, [&](const Member&, const HeldShard& held) {
    least = std::min(least, held.complete_step);
  });
  if (least == kNoStep) return std::nullopt;
  const std::vector<std::set<int>> holders = CopyHolders(job, least);
  const bool is_whole =
      std::none_of(holders.begin(), holders.end(),
                   [](const std::set<int>& ranks) { return ranks.empty(); });
  return is_whole ? std::optional(least) : std::nullopt;
}

std::vector<std::set<int>> CopyHolders(const Job& job, int64_t resume_step) {
  std::vector<std::set<int>> holders(static_cast<size_t>(job.sharding.shards));
  const auto accept = [&](const HeldShard& held) {
    return CanResume(job, held.complete_step, resume_step);
  };
  ForEachCopy(job, accept, [&](const Member& member, const HeldShard& held) {
    holders[static_cast<size_t>(held.shard)].insert(member.identity.rank);
  });
  return holders;
}

bool NeedsGivenCopies(const Job& job, int64_t resume_step) {
  std::set<int> known;
  for (const Member& member : job.members) {
    if (member.is_lost || !member.halted.has_value()) continue;
    for (const HeldShard& held : member.halted->shards) {
      if (CanResume(job, held.complete_step, resume_step))
        known.insert(held.shard);
    }
  }
  for (int shard = 0; job.placements != nullptr && shard < job.sharding.shards;
       ++shard) {
    const ShardPlacement& placement =
        (*job.placements)[static_cast<size_t>(shard)];
    for (const int rank : {placement.primary_rank, placement.backup_rank}) {
      if (rank < 0 || rank >= static_cast<int>(job.members.size())) continue;
      const Member& holder = job.members[static_cast<size_t>(rank)];
      // Without a copy of its own it has answered nobody.
      if (!holder.is_lost && holder.halted.has_value() &&
          !holder.halted->is_blank) {
        known.insert(shard);
      }
    }
  }
  return static_cast<int>(known.size()) < job.sharding.shards;
}

std::shared_ptr<const std::vector<ShardPlacement>> PlaceShardsOf(
    const State& state, const Job& job,
    const std::vector<MemberIdentity>& members,
    std::optional<int64_t> resume_step) {
  if (job.sharding.shards == 0) return nullptr;
  std::vector<ShardHolder> hosts;
  std::map<std::string_view, int> index_of;
  for (const MemberIdentity& member : members) {
    if (!HoldsShards(job, member.role)) continue;
    index_of.emplace(member.worker, static_cast<int>(hosts.size()));
    const Worker* const worker = state.FindWorker(member.worker);
    hosts.push_back({member.rank, member.host_key,
                     worker != nullptr && IsLeaving(*worker)});
  }
  // By rank in the last generation: which host it is now; -1: none.
  const auto host_of = [&](int rank) {
    const Member& member = job.members[static_cast<size_t>(rank)];
    const auto it = index_of.find(member.identity.worker);
    return member.is_lost || it == index_of.end() ? -1 : it->second;
  };
  std::vector<ShardCopies> shards(static_cast<size_t>(job.sharding.shards));
  if (resume_step.has_value()) {
    const std::vector<std::set<int>> holders = CopyHolders(job, *resume_step);
    for (size_t i = 0; i < shards.size(); ++i) {
      for (const int rank : holders[i]) {
        const int host = host_of(rank);
        if (host >= 0) shards[i].holders.push_back(host);
      }
      std::sort(shards[i].holders.begin(), shards[i].holders.end());
    }
  }
  for (size_t i = 0; job.placements != nullptr && i < shards.size(); ++i) {
    const int rank = (*job.placements)[i].primary_rank;
    if (rank < static_cast<int>(job.members.size())) {
      shards[i].primary = host_of(rank);
    }
  }
  return std::make_shared<const std::vector<ShardPlacement>>(
      PlaceShards(hosts, shards, job.sharding.lanes, job.sharding.replicas));
}

void KeepHeldShards(const Job& job, const Member& member, int64_t generation,
                    const std::vector<HeldShard>& held, HaltedAnswer& answer) {
  const int rank = member.identity.rank;
  for (const HeldShard& copy : held) {
    bool is_given = false;
    if (job.placements != nullptr && generation == job.generation) {
      const ShardPlacement& placement =
          (*job.placements)[static_cast<size_t>(copy.shard)];
      is_given =
          placement.primary_rank != rank && placement.backup_rank != rank;
    }
    (is_given ? answer.given_shards : answer.shards).push_back(copy);
  }
}

std::shared_ptr<const std::vector<ShardPlacement>> PlacementsOf(
    const Job& job, const GenerationFormedRecord& record) {
  const std::vector<ShardPlacement>& placements = record.placements;
  const auto is_host = [&](int rank) {
    return rank >= 0 && rank < static_cast<int>(record.members.size()) &&
           HoldsShards(job, record.members[static_cast<size_t>(rank)].role);
  };
  const bool fits =
      !placements.empty() &&
      static_cast<int>(placements.size()) == job.sharding.shards &&
      std::all_of(
          placements.begin(), placements.end(),
          [&](const ShardPlacement& shard) {
            return is_host(shard.primary_rank) &&
                   (shard.backup_rank < 0 || is_host(shard.backup_rank));
          });
  if (!fits) return nullptr;
  return std::make_shared<const std::vector<ShardPlacement>>(placements);
}

std::string ShardHoldersText(const Job& job, int64_t step) {
  constexpr size_t kMostShown = 8;
  std::set<int> ranks;
  for (const std::set<int>& holders : CopyHolders(job, step)) {
    ranks.insert(holders.begin(), holders.end());
  }
  std::string text =
      absl::StrCat("all shards as of step ", step, " are held by ");
  size_t shown = 0;
  for (const int rank : ranks) {
    if (shown++ == kMostShown) return absl::StrCat(text, ", ...");
    const MemberIdentity& holder =
        job.members[static_cast<size_t>(rank)].identity;
    absl::StrAppend(&text, shown == 1 ? "" : ", ", Sv(NameOf(holder.role)), " ",
                    holder.worker, " (rank ", rank, ")");
  }
  return text;
}

}  // namespace ringmaster::coordinator
