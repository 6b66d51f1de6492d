#include "common/program/monitoring.h"

#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/credentials/tls_watch.h"
#include "common/logging/logging.h"
#include "common/metrics/process_metrics.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Starts a `Server` at the address that a flag gives.
template <typename Server, typename Starter>
absl::StatusOr<std::unique_ptr<Server>> StartAt(std::string_view flag,
                                                const std::string& address,
                                                const Starter& start) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  absl::StatusOr<std::unique_ptr<Server>> server =
      parsed.ok() ? start(*parsed) : parsed.status();
  if (server.ok()) {
    LogEvent(LogLevel::kInfo, "monitoring.listening",
             {{"flag", flag}, {"address", (*server)->address().ToString()}});
    return server;
  }
  return WithExitCode(Annotate(server.status(), flag), ExitCode::kUsage);
}

}  // namespace

void AddCertificateMetrics(MetricPage& page) {
  // Certificates may have both labels in common, as an authority's old and new key
  // do: then the first to expire stands for them.
  std::map<std::pair<std::string, std::string>, FollowedCertificate> first;
  for (const FollowedCertificate& each : FollowedCertificates()) {
    const auto [known, is_new] =
        first.try_emplace({each.file, each.subject}, each);
    if (!is_new && each.end < known->second.end) known->second = each;
  }
  for (const auto& [labels, each] : first) {
    page.AddGauge("ringmaster_certificate_expiry_timestamp_seconds",
                  "When the process's certificate, or one that it depends on, "
                  "or an authority of its CA file, expires, in seconds since "
                  "the epoch.",
                  absl::ToDoubleSeconds(each.end - absl::UnixEpoch()),
                  {{"file", each.file}, {"subject", each.subject}});
    page.AddGauge("ringmaster_certificate_start_timestamp_seconds",
                  "When that one began to be valid.",
                  absl::ToDoubleSeconds(each.begin - absl::UnixEpoch()),
                  {{"file", each.file}, {"subject", each.subject}});
  }
}

absl::StatusOr<std::unique_ptr<Monitoring>> Monitoring::Start(
    const MonitoringFlags& flags, std::string_view program,
    MetricsServer::Collect collect) {
  std::unique_ptr<Monitoring> monitoring(new Monitoring());
  if (!flags.health_listen.empty()) {
    ASSIGN_OR_RETURN(
        monitoring->health_,
        StartAt<HealthServer>("--health_listen", flags.health_listen,
                              HealthServer::Start));
  }
  if (!flags.metrics_listen.empty()) {
    const Monitoring* const self = monitoring.get();
    ASSIGN_OR_RETURN(monitoring->metrics_,
                     StartAt<MetricsServer>(
                         "--metrics_listen", flags.metrics_listen,
                         [&](const HostPort& address) {
                           return MetricsServer::Start(
                               address,
                               [name = std::string(program),
                                own = std::move(collect)](MetricPage& page) {
                                 AddProcessMetrics(name, page);
                                 AddCertificateMetrics(page);
                                 own(page);
                               },
                               [self] { return self->health().live; },
                               [self] { return self->health().ready; });
                         }));
  }
  return monitoring;
}

void Monitoring::Set(const Health& health) {
  bool is_news = false;
  {
    MutexLock lock(mutex_);
    is_news = health.live.code() != health_state_.live.code() ||
              health.ready.code() != health_state_.ready.code();
    health_state_ = health;
  }
  // gRPC sends the state to all who watch it, whether it is news or not.
  if (!is_news) return;
  if (health_ != nullptr) health_->Set(health.live.ok(), health.ready.ok());
  LogEvent(health.live.ok() ? LogLevel::kInfo : LogLevel::kError,
           "monitoring.health",
           {{"is_live", health.live.ok()},
            {"is_ready", health.ready.ok()},
            {"message", std::string(health.ready.message())}});
}

Health Monitoring::health() const {
  MutexLock lock(mutex_);
  return health_state_;
}

}  // namespace ringmaster
