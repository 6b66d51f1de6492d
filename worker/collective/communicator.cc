#include "worker/collective/communicator.h"

#include "common/status/status_macros.h"

namespace ringmaster {

const char* CollectiveOpName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "all_reduce";
    case CollectiveOp::kReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::kAllGather:
      return "all_gather";
    case CollectiveOp::kBroadcast:
      return "broadcast";
    case CollectiveOp::kBarrier:
      return "barrier";
  }
  return "unknown";
}

absl::Status Communicator::Run(const CollectiveRequest& request,
                               MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Ticket ticket, Start(request));
  return Wait(ticket, deadline);
}

}  // namespace ringmaster
