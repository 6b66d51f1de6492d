#include "worker/collective/plan_cache.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

}  // namespace

absl::StatusOr<CollectivePlan*> PlanCache::Find(
    const CollectiveRequest& request) {
  const DType wire = request.wire.value_or(request.buffer.dtype);
  const Key key(request.op, request.algorithm, request.reduction,
                request.buffer.dtype, wire, request.buffer.count, request.root);
  auto it = plans_.find(key);
  if (it == plans_.end()) {
    if (plans_.size() >= kMaxPlans) plans_.clear();
    ASSIGN_OR_RETURN(std::unique_ptr<CollectivePlan> plan, Make(request, wire));
    it = plans_.emplace(key, std::move(plan)).first;
  }
  for (const auto& lane : it->second->lanes) {
    lane->done = 0;
    lane->has_begun = false;
  }
  return it->second.get();
}

absl::StatusOr<std::unique_ptr<CollectivePlan>> PlanCache::Make(
    const CollectiveRequest& request, DType wire) const {
  auto plan = std::make_unique<CollectivePlan>();
  plan->wire = wire;
  const bool is_reduction = request.op == CollectiveOp::kAllReduce ||
                            request.op == CollectiveOp::kReduceScatter;
  ASSIGN_OR_RETURN(plan->kernels, KernelsFor(request.buffer.dtype, wire,
                                             is_reduction ? request.reduction
                                                          : Reduction::kSum));
  ScheduleRequest wanted;
  wanted.op = request.op;
  wanted.algorithm = request.algorithm;
  wanted.rank = rank_;
  wanted.count = request.buffer.count;
  wanted.root = request.root;
  wanted.segment_count = kSegmentBytes / plan->kernels.element_bytes;
  wanted.has_finish = plan->kernels.finish != nullptr;
  Schedule schedule = BuildSchedule(wanted, topology_);
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
