#include "server/coordinator/rpc/metrics.h"

#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/metrics/status_metrics.h"
#include "server/coordinator/rpc/ask_and_wait.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {

void RuntimeMetrics::AddTo(MetricPage& page) const {
  const absl::StatusOr<v1::Status> status =
      AskAndWait(runtime_, Clock::Real(), patience_,
                 [tally = tally_](const CoordinatorView& view) {
                   tally->Update(view.state);
                   return StatusProto(view.Status());
                 });
  page.AddGauge(
      "ringmaster_coordinator_up",
      "1 if the coordinator answered this scrape, 0 if it is too busy.",
      status.ok() ? 1 : 0);
  if (status.ok()) AddStatusMetrics(*status, page);
  tally_->AddMetrics(page);
}

}  // namespace ringmaster::coordinator
