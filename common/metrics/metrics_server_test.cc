#include "common/metrics/metrics_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/address.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "common/transport/testing/send_raw.h"
#include "common/transport/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(MetricPage, IsPrometheusTextFormat) {
  MetricPage page;
  page.AddGauge("ringmaster_workers", "Workers.", 3, {{"state", "IDLE"}});
  page.AddGauge("ringmaster_workers", "Workers.", 0.5,
                {{"state", "say \"hi\"\\\n"}});
  page.AddCounter("ringmaster_steps_total", "Steps.", 12);
  page.AddHistogram("ringmaster_wait_seconds", "Waits.",
                    {.sample_count = 3,
                     .sample_sum = 4,
                     .bucket = {{.cumulative_count = 2, .upper_bound = 1}}});
  EXPECT_EQ(page.Text(), R"(# HELP ringmaster_workers Workers.
# TYPE ringmaster_workers gauge
ringmaster_workers{state="IDLE"} 3
ringmaster_workers{state="say \"hi\"\\\n"} 0.5
# HELP ringmaster_steps_total Steps.
# TYPE ringmaster_steps_total counter
ringmaster_steps_total 12
# HELP ringmaster_wait_seconds Waits.
# TYPE ringmaster_wait_seconds histogram
ringmaster_wait_seconds_count 3
ringmaster_wait_seconds_sum 4
ringmaster_wait_seconds_bucket{le="1"} 2
ringmaster_wait_seconds_bucket{le="+Inf"} 3
)");
}

TEST(ProcessMetrics, TellOfThisProcess) {
  MetricPage page;
  AddProcessMetrics("a_test", page);
  const std::string text = page.Text();
  EXPECT_THAT(text, ContainsRegex("ringmaster_build_info\\{program=\"a_test\","
                                  "version=\"[0-9]+\\.[0-9]+\\.[0-9]+\"\\} 1"));
  // Since 2024, and some memory.
  EXPECT_THAT(text, ContainsRegex("process_start_time_seconds 1[7-9][0-9]"));
  EXPECT_THAT(text, ContainsRegex("process_resident_memory_bytes [1-9]"));
  EXPECT_THAT(text, ContainsRegex("process_open_fds [1-9]"));
  EXPECT_THAT(text, ContainsRegex("process_max_fds [1-9]"));
  EXPECT_THAT(text, HasSubstr("process_cpu_seconds_total "));
}

TEST(MetricsServer, AnswersEachScrapeAnew) {
  int scrapes = 0;
  const auto server =
      MetricsServer::Start({"localhost", 0}, [&scrapes](MetricPage& page) {
        page.AddCounter("ringmaster_scrapes_total", "Scrapes.", ++scrapes);
      });
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->address().port;
  ASSERT_GT(port, 0);
  httplib::Client prometheus("127.0.0.1", port);
  const httplib::Result first = prometheus.Get("/metrics");
  ASSERT_TRUE(first);
  EXPECT_THAT(first->body, HasSubstr("\nringmaster_scrapes_total 1\n"));
  const httplib::Result second = prometheus.Get("/metrics");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->status, 200);
  EXPECT_THAT(second->body, HasSubstr("\nringmaster_scrapes_total 2\n"));
  EXPECT_EQ(second->get_header_value("Content-Type"),
            "text/plain; version=0.0.4; charset=utf-8");
  const httplib::Result elsewhere = prometheus.Get("/elsewhere");
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->status, 404);
}

TEST(MetricsServer, AnswersProbesAndSaysWhatIsWrong) {
  const auto server = MetricsServer::Start(
      {"127.0.0.1", 0}, [](MetricPage&) {}, [] { return absl::OkStatus(); },
      [] { return absl::UnavailableError("journal /x: the disk hangs"); });
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client prober("127.0.0.1", (*server)->address().port);
  const httplib::Result live = prober.Get("/healthz");
  ASSERT_TRUE(live);
  EXPECT_EQ(live->status, 200);
  EXPECT_EQ(live->body, "ok\n");
  const httplib::Result ready = prober.Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(ready->body, "journal /x: the disk hangs\n");
}

TEST(MetricsServer, EndsWhileAClientSaysNothing) {
  auto server = MetricsServer::Start({"127.0.0.1", 0}, [](MetricPage&) {});
  ASSERT_TRUE(server.ok()) << server.status();
  const UniqueFd silent = ConnectLoopback((*server)->address().port);
  server->reset();
}

// Each holds up a thread for as long as it may, and a scrape waits no longer.
TEST(MetricsServer, AnswersThoughManySlowClientsAreThere) {
  const auto server =
      MetricsServer::Start({"127.0.0.1", 0}, [](MetricPage&) {});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->address().port;
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(ConnectLoopback(port));
    ASSERT_EQ(send(slow.back().get(), "G", 1, MSG_NOSIGNAL), 1);
  }
  std::atomic<bool> is_answered = false;
  std::thread drips([&] {
    while (!is_answered) {
      pollfd nothing = {.fd = -1, .events = 0, .revents = 0};
      poll(&nothing, 1, /*timeout=*/100);
      for (const UniqueFd& each : slow) send(each.get(), "x", 1, MSG_NOSIGNAL);
    }
  });
  httplib::Client prometheus("127.0.0.1", port);
  prometheus.set_read_timeout(40);
  const httplib::Result answer = prometheus.Get("/metrics");
  is_answered = true;
  drips.join();
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
}

TEST(MetricsServer, SaysWhyItCannotListen) {
  const auto nothing = [](MetricPage&) {};
  const auto first = MetricsServer::Start({"127.0.0.1", 0}, nothing);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = MetricsServer::Start((*first)->address(), nothing);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message(), "cannot listen on " +
                                           (*first)->address().ToString() +
                                           ": Address already in use");
  const auto elsewhere =
      MetricsServer::Start({"no.such.host.invalid", 1}, nothing);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(std::string(elsewhere.status().message()),
              HasSubstr("cannot listen on no.such.host.invalid:1: "));
  const auto foreign = MetricsServer::Start({"192.0.2.1", 9464}, nothing);
  ASSERT_FALSE(foreign.ok());
  EXPECT_THAT(std::string(foreign.status().message()),
              HasSubstr("Cannot assign requested address"));
}

}  // namespace
}  // namespace ringmaster
