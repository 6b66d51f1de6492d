// Schedules in which every rank talks to every other, or to one: direct,
// exchange and gather_broadcast.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "worker/collective/schedule_builder.h"

namespace ringmaster {
namespace {

constexpr int kContribution = 0;  // step marks
constexpr int kResult = 1;

// How many contributions are sent ahead of the result being computed. More of
// them hide a peer's hiccups, fewer keep the result in a near cache.
constexpr size_t kLead = 2;

// The distances of the ranks that get a rank's result.
std::vector<int> ReceiversOf(const Phases& phases, int world_size) {
  if (!phases.has_gather) return phases.mirrors;
  std::vector<int> others(static_cast<size_t>(world_size) - 1);
  std::iota(others.begin(), others.end(), 1);
  return others;
}

std::vector<int> AllRanks(int world_size) {
  std::vector<int> ranks(static_cast<size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The segments of every rank's chunk.
std::vector<std::vector<ElemRange>> SplitChunks(
    const ScheduleBuilder& builder) {
  const int n = builder.world_size();
  std::vector<std::vector<ElemRange>> chunks;
  for (int rank = 0; rank < n; ++rank) {
    chunks.push_back(builder.Split(ChunkOf(rank, n, builder.request().count)));
  }
  return chunks;
}

}  // namespace

// Turn t has segment t of every contribution and segment t - lead of every
// result. Both ends of a pair go through the turns alike, and an operation only
// ever waits for one at an earlier place, so there is no circular wait.
//
// A result overwrites elements that were sent as a contribution, which is safe:
// without that contribution there would be no result.
void BuildDirect(ScheduleBuilder* builder, const Phases& phases) {
  const int n = builder->world_size();
  const std::vector<int> receivers = ReceiversOf(phases, n);
  const size_t lead = phases.has_reduce && !receivers.empty() ? kLead : 0;
  const std::vector<std::vector<ElemRange>> chunks = SplitChunks(*builder);
  const auto chunk_at = [ builder, &chunks ](int distance) -> const auto& {
    return chunks[static_cast<size_t>(builder->RankAt(distance))];
  };
  const std::vector<ElemRange>& own = chunk_at(0);
  OrderedSum sum(builder, AllRanks(n), kContribution, own);
  std::vector<After> complete;
  // No chunk has more segments than the first one.
  for (size_t turn = 0; turn < chunks[0].size() + lead; ++turn) {
    for (int d = 1; phases.has_reduce && d < n; ++d) {
      if (turn >= chunk_at(d).size()) continue;
      builder->Send(builder->RankAt(d), kContribution, chunk_at(d)[turn], {});
    }
    if (turn < own.size()) {
      const After summed = phases.has_reduce ? sum.Next() : After();
      complete.push_back(builder->Finish(own[turn], summed));
    }
    if (receivers.empty() || turn < lead) continue;
    const size_t result = turn - lead;
    for (const int d : receivers) {
      if (result >= own.size()) break;
      builder->Send(builder->RankAt(d), kResult, own[result], complete[result]);
    }
    for (const int d : receivers) {
      if (result >= chunk_at(-d).size()) continue;
      builder->Keep(builder->RankAt(-d), kResult, chunk_at(-d)[result], {});
    }
  }
}

// A rank must not overwrite what it has sent to all: the arrival of the others'
// contributions does not prove that its own has arrived. So it sends a copy.
// All add the same bits in the same order, so that results are equal: the first
// rank's come first, and a rank takes its own as the others see them.
void BuildExchange(ScheduleBuilder* builder) {
  const int n = builder->world_size();
  const int own = builder->rank();
  const ElemRange whole = {0, builder->request().count};
  builder->ReserveScratch(whole.count);
  for (const ElemRange& segment : builder->Split(whole)) {
    if (own == 0) builder->RoundAsWire(segment);
    const After copied =
        builder->CopyToScratch(segment, segment.begin, /*is_as_wire=*/true);
    for (int d = 1; d < n; ++d) {
      builder->Send(builder->RankAt(d), kContribution, segment, copied,
                    Area::kScratch);
    }
    After done = copied;
    for (int rank = 0; rank < n; ++rank) {
      if (rank != own) {
        done = rank == 0 ? builder->Keep(rank, kContribution, segment, done)
                         : builder->Reduce(rank, kContribution, segment, done);
      } else if (own != 0) {
        done = builder->ReduceFromScratch(segment, segment.begin, done);
      }
    }
    builder->Finish(segment, done);
  }
}

void BuildGatherBroadcast(ScheduleBuilder* builder) {
  constexpr int kRoot = 0;
  const int n = builder->world_size();
  const std::vector<ElemRange> segments =
      builder->Split({0, builder->request().count});
  if (builder->rank() == kRoot) {
    OrderedSum sum(builder, AllRanks(n), kContribution, segments);
    for (const ElemRange& segment : segments) {
      const After complete = builder->Finish(segment, sum.Next());
      for (int rank = 1; rank < n; ++rank) {
        builder->Send(rank, kResult, segment, complete);
      }
    }
    return;
  }
  for (const ElemRange& segment : segments) {
    builder->Send(kRoot, kContribution, segment, {});
    builder->Keep(kRoot, kResult, segment, {});
  }
}

}  // namespace ringmaster
