#include "server/coordinator/rpc/metrics.h"

#include <chrono>
#include <future>
#include <memory>

#include "absl/status/status.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/metrics/status_metrics.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {

void RuntimeMetrics::AddTo(MetricPage& page) const {
  // The answer may come when nobody waits any more.
  auto answer = std::make_shared<std::promise<v1::Status>>();
  std::future<v1::Status> status = answer->get_future();
  const absl::Status asked =
      runtime_.Ask([answer, tally = tally_](const CoordinatorView& view) {
        tally->Update(view.state);
        answer->set_value(StatusProto(view.Status()));
      });
  const bool is_up =
      asked.ok() && status.wait_for(absl::ToChronoMilliseconds(patience_)) ==
                        std::future_status::ready;
  page.AddGauge(
      "ringmaster_coordinator_up",
      "1 if the coordinator answered this scrape, 0 if it is too busy.",
      is_up ? 1 : 0);
  if (is_up) AddStatusMetrics(status.get(), page);
  tally_->AddMetrics(page);
}

}  // namespace ringmaster::coordinator
