#include "worker/collective/schedule.h"

#include <set>
#include <utility>

#include "common/plan/mesh.h"
#include "common/plan/partition.h"
#include "common/status/check.h"
#include "worker/collective/schedule_builder.h"

namespace ringmaster {
namespace {

// In round k a rank tells the rank 2^k places further that it and the 2^k - 1
// ranks before it have begun, once it has been told the same about those before
// them.
void BuildBarrier(ScheduleBuilder* builder) {
  After told;
  int round = 0;
  for (int distance = 1; distance < builder->world_size(); distance *= 2) {
    builder->Send(builder->RankAt(distance), round, {}, told);
    told = builder->Keep(builder->RankAt(-distance), round, {}, told);
    ++round;
  }
}

void BuildBroadcast(ScheduleBuilder* builder, bool is_chain) {
  const int n = builder->world_size();
  const int root = builder->request().root;
  const bool is_root = builder->rank() == root;
  const bool is_last = builder->RankAt(1) == root;
  const int source = is_chain ? builder->RankAt(-1) : root;
  for (const ElemRange& segment :
       builder->Split({0, builder->request().count})) {
    const After here = is_root ? builder->Finish(segment, {})
                               : builder->Keep(source, 0, segment, {});
    if (is_chain) {
      if (!is_last) builder->Send(builder->RankAt(1), 0, segment, here);
      continue;
    }
    for (int d = 1; is_root && d < n; ++d) {
      builder->Send(builder->RankAt(d), 0, segment, here);
    }
  }
}

void BuildAllReduce(ScheduleBuilder* builder, const Topology& topology) {
  Algorithm algorithm = builder->request().algorithm;
  const bool is_pair = builder->world_size() == 2;
  if (is_pair && (algorithm == Algorithm::kRing ||
                  algorithm == Algorithm::kHalvingDoubling)) {
    algorithm = Algorithm::kDirect;
  }
  if (algorithm == Algorithm::kHierarchical && topology.host_count() == 1) {
    algorithm = Algorithm::kDirect;
  }
  switch (algorithm) {
    case Algorithm::kDirect:
      return BuildDirect(builder, {});
    case Algorithm::kExchange:
      return BuildExchange(builder);
    case Algorithm::kGatherBroadcast:
      return BuildGatherBroadcast(builder);
    case Algorithm::kRing:
      return BuildRing(builder, {});
    case Algorithm::kHalvingDoubling:
      return BuildHalvingDoubling(builder);
    case Algorithm::kHierarchical:
      return BuildHierarchical(builder, topology);
    case Algorithm::kAuto:
      break;
  }
  RM_CHECK(false, "a schedule needs an algorithm");
}

}  // namespace

Schedule BuildSchedule(const ScheduleRequest& request,
                       const Topology& topology) {
  const int n = topology.world_size();
  RM_CHECK(n >= 2 && request.segment_count >= 1, "nobody to talk to");
  RM_CHECK(IsUsable(request.algorithm, topology), "ranks are not connected");
  ScheduleBuilder builder(request, n);
  const bool is_ring =
      request.algorithm == Algorithm::kRing || !IsMesh(topology);
  const auto build_phases = [&builder, is_ring, n](const Phases& phases) {
    if (is_ring && n > 2) {
      BuildRing(&builder, phases);
    } else {
      BuildDirect(&builder, phases);
    }
  };
  switch (request.op) {
    case CollectiveOp::kAllReduce:
      BuildAllReduce(&builder, topology);
      break;
    case CollectiveOp::kReduceScatter:
      build_phases({.has_reduce = true,
                    .has_gather = false,
                    .mirrors = MirrorDistances(request.mirrors, topology)});
      break;
    case CollectiveOp::kAllGather:
      build_phases({.has_reduce = false, .has_gather = true});
      break;
    case CollectiveOp::kBroadcast:
      BuildBroadcast(&builder, is_ring);
      break;
    case CollectiveOp::kBarrier:
      BuildBarrier(&builder);
      break;
  }
  return std::move(builder).Build();
}

bool IsUsable(Algorithm algorithm, const Topology& topology) {
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kHalvingDoubling:
      return true;
    case Algorithm::kDirect:
    case Algorithm::kExchange:
    case Algorithm::kGatherBroadcast:
      return IsMesh(topology);
    case Algorithm::kHierarchical:
      return AreHostsMeshes(topology);
    case Algorithm::kAuto:
      break;
  }
  return false;
}

}  // namespace ringmaster
