#include "common/metrics/metrics_server.h"

#include <httplib.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/http/bind.h"
#include "common/http/bounded_pool.h"
#include "common/http/http_server.h"
#include "common/http/running_server.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Scrapes at once; a further one waits.
constexpr size_t kThreads = 4;
// Connections that wait for a thread.
constexpr int kMaxQueued = 8;
// A client that sends or takes nothing may hold up a thread for this long.
constexpr time_t kIdleSeconds = 1;
// One that sends or takes a byte at a time, for this long. Page and probes are small.
constexpr absl::Duration kRequestLimit = absl::Seconds(2);
// Version 0.0.4 of the text format:
// https://prometheus.io/docs/instrumenting/exposition_formats/
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr int kServiceUnavailable = 503;

void Serve(const char* path, MetricsServer::Probe probe,
           httplib::Server& server) {
  server.Get(path, [probe = std::move(probe)](const httplib::Request&,
                                              httplib::Response& answer) {
    const absl::Status status = probe();
    if (!status.ok()) answer.status = kServiceUnavailable;
    answer.set_content(
        status.ok() ? "ok\n" : absl::StrCat(status.message(), "\n"),
        "text/plain; charset=utf-8");
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const HostPort& address, Collect collect, Probe is_live, Probe is_ready) {
  auto owned = std::make_unique<HttpServer>();
  HttpServer& server = *owned;
  server.new_task_queue = [] { return new BoundedPool(kThreads, kMaxQueued); };
  server.set_read_timeout(kIdleSeconds);
  server.set_write_timeout(kIdleSeconds);
  server.set_request_limit(kRequestLimit);
  server.Get("/metrics",
             [collect = std::move(collect)](const httplib::Request&,
                                            httplib::Response& answer) {
               MetricPage page;
               collect(page);
               answer.set_content(page.Text(), kTextFormat);
             });
  Serve("/healthz", std::move(is_live), server);
  Serve("/readyz", std::move(is_ready), server);
  ASSIGN_OR_RETURN(const HostPort bound, Bind(address, server));
  return std::unique_ptr<MetricsServer>(new MetricsServer(
      std::make_unique<RunningServer>(std::move(owned), bound)));
}

MetricsServer::MetricsServer(std::unique_ptr<RunningServer> server)
    : server_(std::move(server)) {}

MetricsServer::~MetricsServer() = default;

const HostPort& MetricsServer::address() const { return server_->address(); }

}  // namespace ringmaster
