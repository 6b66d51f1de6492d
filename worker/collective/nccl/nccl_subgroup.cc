#include "worker/collective/nccl/nccl_subgroup.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"

namespace ringmaster {

// A ticket has the engine's number.
absl::StatusOr<Ticket> NcclSubgroup::Start(const CollectiveRequest& request) {
  if (request.buffer.memory != MemoryKind::kCuda) {
    return absl::InvalidArgumentError(
        "a group that was split off takes buffers in device memory only");
  }
  RETURN_IF_ERROR(CheckNcclRequest(request, world_size(), settings_));
  ASSIGN_OR_RETURN(
      const int64_t sequence,
      engine_.Start(membership_.group, request,
                    TrafficByTheory(request, rank(), world_size()), compute_));
  return Ticket{sequence};
}

absl::Status NcclSubgroup::Wait(Ticket ticket, MonotonicTime deadline) {
  if (ticket.sequence < 1 || ticket.sequence > engine_.totals().started) {
    return absl::InvalidArgumentError(
        absl::StrCat("ticket ", ticket.sequence, " was never given out"));
  }
  return engine_.Wait(ticket.sequence, deadline);
}

void NcclSubgroup::Abort(std::string_view why) {
  engine_.Fail(absl::AbortedError(absl::StrCat(
      "rank ", rank(), " of a group of ", world_size(),
      " was aborted: ", absl::string_view(why.data(), why.size()))));
}

Algorithm NcclSubgroup::AlgorithmFor(
    const CollectiveRequest& /*request*/) const {
  return settings_.ring ? Algorithm::kRing : Algorithm::kAuto;
}

}  // namespace ringmaster
