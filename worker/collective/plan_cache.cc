#include "worker/collective/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

Lane::Kind LaneKindOf(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::kSend:
      return Lane::Kind::kSend;
    case Operation::Kind::kReceive:
      return Lane::Kind::kReceive;
    case Operation::Kind::kLocal:
    case Operation::Kind::kFinish:
      break;
  }
  return Lane::Kind::kLocal;
}

Lane* FindLane(const CollectivePlan& plan, Lane::Kind kind, int peer) {
  for (const auto& lane : plan.lanes) {
    if (lane->kind == kind && lane->peer == peer) return lane.get();
  }
  return nullptr;
}

void AddToPairs(Lane& lane, CollectivePlan& plan) {
  if (lane.kind == Lane::Kind::kLocal) return;
  auto pair = std::find_if(plan.pairs.begin(), plan.pairs.end(),
                           [&](const CollectivePlan::Pair& other) {
                             return other.peer == lane.peer;
                           });
  if (pair == plan.pairs.end()) {
    plan.pairs.push_back({.peer = lane.peer});
    pair = std::prev(plan.pairs.end());
  }
  (lane.kind == Lane::Kind::kSend ? pair->send : pair->receive) = &lane;
}

}  // namespace

absl::StatusOr<ReductionKernels> KernelsOf(const CollectiveRequest& request) {
  const bool is_reduction = request.op == CollectiveOp::kAllReduce ||
                            request.op == CollectiveOp::kReduceScatter;
  return KernelsFor(request.buffer.dtype, WireOf(request),
                    is_reduction ? request.reduction : Reduction::kSum);
}

absl::StatusOr<CollectivePlan*> PlanCache::Find(
    const CollectiveRequest& request) {
  const Key key(request.op, request.algorithm, request.reduction,
                request.buffer.dtype, WireOf(request), request.buffer.count,
                request.root);
  auto it = plans_.find(key);
  if (it == plans_.end()) {
    ASSIGN_OR_RETURN(std::unique_ptr<CollectivePlan> plan, Make(request));
    operation_count_ += plan->operation_count;
    if (operation_count_ > kMaxOperations) {
      plans_.clear();
      operation_count_ = plan->operation_count;
    }
    it = plans_.emplace(key, std::move(plan)).first;
  }
  for (const auto& lane : it->second->lanes) {
    lane->done = 0;
    lane->has_begun = false;
  }
  return it->second.get();
}

absl::StatusOr<std::unique_ptr<CollectivePlan>> PlanCache::Make(
    const CollectiveRequest& request) const {
  auto plan = std::make_unique<CollectivePlan>();
  plan->algorithm = ChooseAlgorithm(request, topology_, policy_);
  ASSIGN_OR_RETURN(plan->kernels, KernelsOf(request));
  ScheduleRequest wanted;
  wanted.op = request.op;
  wanted.algorithm = plan->algorithm;
  wanted.rank = rank_;
  wanted.count = request.buffer.count;
  wanted.root = request.root;
  wanted.segment_count = kSegmentBytes / plan->kernels.element_bytes;
  wanted.has_finish = plan->kernels.finish != nullptr;
  const Schedule schedule = BuildSchedule(wanted, topology_);
  plan->operation_count = schedule.operations.size();
  plan->scratch_bytes = schedule.scratch_count * plan->kernels.element_bytes;
  size_t place = 0;
  for (const Operation& operation : schedule.operations) {
    const Lane::Kind kind = LaneKindOf(operation.kind);
    Lane* lane = FindLane(*plan, kind, operation.peer);
    if (lane == nullptr) {
      plan->lanes.push_back(std::make_unique<Lane>());
      lane = plan->lanes.back().get();
      lane->kind = kind;
      lane->peer = operation.peer;
      AddToPairs(*lane, *plan);
    }
    lane->items.push_back({operation, nullptr, place++});
  }
  for (const auto& lane : plan->lanes) {
    for (Lane::Item& item : lane->items) {
      const int after = item.operation.after_peer;
      if (after < 0) continue;
      item.after = after == rank_
                       ? FindLane(*plan, Lane::Kind::kLocal, -1)
                       : FindLane(*plan, Lane::Kind::kReceive, after);
    }
  }
  return plan;
}

}  // namespace ringmaster
