#include "common/metrics/metrics_server.h"

#include <httplib.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/http/bind.h"
#include "common/http/bounded_pool.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Scrapes at once; a further one waits.
constexpr size_t kThreads = 2;
// Connections that wait for a thread.
constexpr int kMaxQueued = 8;
// A client that sends or takes nothing may hold up a thread, and so the
// server's end, for this long. One that sends a byte at a time holds it for as
// many times that as it sends bytes: probes that end a process belong to the
// health service of gRPC (--health_listen), whose connections are bounded.
constexpr time_t kIdleSeconds = 1;
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

struct MetricsServer::Impl {
  httplib::Server server;
  std::atomic<bool> is_over = false;  // the thread's work
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const HostPort& address, Collect collect, Probe is_live, Probe is_ready) {
  auto impl = std::make_unique<Impl>();
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new BoundedPool(kThreads, kMaxQueued); };
  server.set_read_timeout(kIdleSeconds);
  server.set_write_timeout(kIdleSeconds);
  server.set_keep_alive_timeout(kIdleSeconds);
  // So that a thread is free again after each scrape.
  server.set_keep_alive_max_count(1);
  server.Get("/metrics",
             [collect = std::move(collect)](const httplib::Request&,
                                            httplib::Response& answer) {
               MetricPage page;
               collect(page);
               answer.set_content(page.Text(), kTextFormat);
             });
  Serve("/healthz", std::move(is_live), server);
  Serve("/readyz", std::move(is_ready), server);
  ASSIGN_OR_RETURN(const HostPort listening, Bind(address, server));
  impl->thread = std::thread([&impl = *impl] {
    impl.server.listen_after_bind();
    impl.is_over = true;
  });
  // A server that does not run yet would not hear that it shall stop.
  while (!server.is_running() && !impl->is_over) std::this_thread::yield();
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(listening, std::move(impl)));
}

MetricsServer::MetricsServer(const HostPort& address,
                             std::unique_ptr<Impl> impl)
    : address_(address), impl_(std::move(impl)) {}

MetricsServer::~MetricsServer() {
  impl_->server.stop();
  impl_->thread.join();
}

}  // namespace ringmaster
