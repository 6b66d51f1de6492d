#include "server/coordinator/rpc/metrics.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/metrics/status_metrics.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {
namespace {

// What users are told, now.
std::optional<v1::Status> AskStatus(CoordinatorRuntime& runtime,
                                    absl::Duration patience) {
  // The answer may come when nobody waits any more.
  auto answer = std::make_shared<std::promise<v1::Status>>();
  std::future<v1::Status> status = answer->get_future();
  const absl::Status asked = runtime.Ask([answer](const CoordinatorView& view) {
    answer->set_value(StatusProto(view.Status()));
  });
  if (!asked.ok() || status.wait_for(absl::ToChronoMilliseconds(patience)) !=
                         std::future_status::ready)
    return std::nullopt;
  return status.get();
}

}  // namespace

void RuntimeMetrics::AddTo(MetricPage& page) {
  const std::optional<v1::Status> status = AskStatus(runtime_, kPatience);
  page.AddGauge("ringmaster_coordinator_up",
                "1 if the coordinator answered this scrape; 0 if it is busy, "
                "or shuts down.",
                status.has_value() ? 1 : 0);
  if (status.has_value()) {
    tally_.Update(*status);
    AddStatusMetrics(*status, page);
  }
  tally_.AddMetrics(page);
}

}  // namespace ringmaster::coordinator
