#include "common/http/running_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/address.h"
#include "common/http/bind.h"
#include "common/http/http_server.h"
#include "common/transport/testing/send_raw.h"
#include "common/transport/unique_fd.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kLongEnough = absl::Seconds(40);

std::unique_ptr<RunningServer> Start(std::unique_ptr<HttpServer> server) {
  const absl::StatusOr<HostPort> bound = Bind({"127.0.0.1", 0}, *server);
  EXPECT_TRUE(bound.ok()) << bound.status();
  return std::make_unique<RunningServer>(std::move(server), *bound);
}

// Sends a byte now and then until that fails, or for kLongEnough; true if it failed.
bool Trickle(int socket) {
  const MonotonicTime end = Clock::Real().Now() + kLongEnough;
  while (Clock::Real().Now() < end) {
    if (send(socket, "x", 1, MSG_NOSIGNAL) != 1) return true;
    char byte = 0;
    const timeval pause = {.tv_sec = 0, .tv_usec = 20'000};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
    if (recv(socket, &byte, 1, 0) == 0) return true;
  }
  return false;
}

TEST(RunningServer, EndsWhileAClientTricklesItsRequest) {
  std::promise<void> has_begun;
  auto server = std::make_unique<HttpServer>();
  server->set_read_timeout(3600);
  server->Post("/", [&](const httplib::Request&, httplib::Response&,
                        const httplib::ContentReader& content) {
    has_begun.set_value();
    content([](const char*, size_t) { return true; });
  });
  auto running = Start(std::move(server));
  const UniqueFd client = ConnectLoopback(running->address().port);
  // A connection to elsewhere goes on.
  auto elsewhere = std::make_unique<HttpServer>();
  elsewhere->set_read_timeout(3600);
  auto other = Start(std::move(elsewhere));
  const UniqueFd bystander = ConnectLoopback(other->address().port);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
  ASSERT_EQ(send(client.get(), head.data(), head.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(head.size()));
  ASSERT_EQ(has_begun.get_future().wait_for(absl::ToChronoSeconds(kLongEnough)),
            std::future_status::ready);
  std::future<bool> is_broken =
      std::async(std::launch::async, [&] { return Trickle(client.get()); });
  const MonotonicTime begin = Clock::Real().Now();
  running.reset();
  EXPECT_LT(Clock::Real().Now() - begin, kLongEnough / 2);
  EXPECT_TRUE(is_broken.get());
  EXPECT_EQ(send(bystander.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL),
            18);
  char byte = 0;
  EXPECT_EQ(recv(bystander.get(), &byte, 1, 0), 1);
}

TEST(RunningServer, AnswersARequestThatIsUnderWayWhenItStops) {
  std::promise<void> asked;
  std::promise<void> go_on;
  auto server = std::make_unique<HttpServer>();
  server->Get("/", [&](const httplib::Request&, httplib::Response& answer) {
    asked.set_value();
    go_on.get_future().wait_for(absl::ToChronoSeconds(kLongEnough));
    answer.set_content("late", "text/plain");
  });
  auto running = Start(std::move(server));
  const int port = running->address().port;
  std::future<std::string> body = std::async(std::launch::async, [port] {
    const httplib::Result answer = httplib::Client("127.0.0.1", port).Get("/");
    return answer ? answer->body : "";
  });
  EXPECT_EQ(asked.get_future().wait_for(absl::ToChronoSeconds(kLongEnough)),
            std::future_status::ready);
  running->Stop();
  EXPECT_FALSE(httplib::Client("127.0.0.1", port).Get("/"));
  go_on.set_value();
  EXPECT_EQ(body.get(), "late");
}

}  // namespace
}  // namespace ringmaster
