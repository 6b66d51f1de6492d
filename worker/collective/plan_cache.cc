#include "worker/collective/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

OperationQueue::Kind QueueKindOf(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::kSend:
      return OperationQueue::Kind::kSend;
    case Operation::Kind::kReceive:
      return OperationQueue::Kind::kReceive;
    case Operation::Kind::kLocal:
    case Operation::Kind::kFinish:
      break;
  }
  return OperationQueue::Kind::kLocal;
}

OperationQueue* FindQueue(const CollectivePlan& plan, OperationQueue::Kind kind,
                          int peer) {
  for (const auto& queue : plan.queues) {
    if (queue->kind == kind && queue->peer == peer) return queue.get();
  }
  return nullptr;
}

void AddToPairs(OperationQueue& queue, CollectivePlan& plan) {
  if (queue.kind == OperationQueue::Kind::kLocal) return;
  auto pair = std::find_if(plan.pairs.begin(), plan.pairs.end(),
                           [&](const CollectivePlan::Pair& other) {
                             return other.peer == queue.peer;
                           });
  if (pair == plan.pairs.end()) {
    plan.pairs.push_back({.peer = queue.peer});
    pair = std::prev(plan.pairs.end());
  }
  (queue.kind == OperationQueue::Kind::kSend ? pair->send : pair->receive) =
      &queue;
}

}  // namespace

absl::StatusOr<ReductionKernels> KernelsOf(const CollectiveRequest& request) {
  const bool is_reduction = request.op == CollectiveOp::kAllReduce ||
                            request.op == CollectiveOp::kReduceScatter;
  if (!is_reduction && request.buffer.dtype == DType::kUint8 &&
      WireOf(request) == DType::kUint8) {
    return ReductionKernels{.element_bytes = 1, .wire_bytes = 1};
  }
  return KernelsFor(request.buffer.dtype, WireOf(request),
                    is_reduction ? request.reduction : Reduction::kSum);
}

absl::StatusOr<CollectivePlan*> PlanCache::Find(
    const CollectiveRequest& request) {
  const Key key(request.op, request.algorithm, request.reduction,
                request.buffer.dtype, WireOf(request), request.buffer.count,
                request.root, request.mirrors);
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
  for (const auto& queue : it->second->queues) {
    queue->done = 0;
    queue->has_begun = false;
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
  wanted.mirrors = request.mirrors;
  wanted.segment_count = kSegmentBytes / plan->kernels.element_bytes;
  wanted.has_finish = plan->kernels.finish != nullptr;
  const Schedule schedule = BuildSchedule(wanted, topology_);
  plan->operation_count = schedule.operations.size();
  plan->scratch_bytes = schedule.scratch_count * plan->kernels.element_bytes;
  size_t place = 0;
  for (const Operation& operation : schedule.operations) {
    const OperationQueue::Kind kind = QueueKindOf(operation.kind);
    OperationQueue* queue = FindQueue(*plan, kind, operation.peer);
    if (queue == nullptr) {
      plan->queues.push_back(std::make_unique<OperationQueue>());
      queue = plan->queues.back().get();
      queue->kind = kind;
      queue->peer = operation.peer;
      AddToPairs(*queue, *plan);
    }
    queue->items.push_back({operation, nullptr, place++});
  }
  for (const auto& queue : plan->queues) {
    for (OperationQueue::Item& item : queue->items) {
      const int after = item.operation.after_peer;
      if (after < 0) continue;
      item.after =
          after == rank_
              ? FindQueue(*plan, OperationQueue::Kind::kLocal, -1)
              : FindQueue(*plan, OperationQueue::Kind::kReceive, after);
    }
  }
  return plan;
}

}  // namespace ringmaster
