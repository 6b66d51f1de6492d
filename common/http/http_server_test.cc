#include "common/http/http_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/http/bind.h"
#include "common/http/running_server.h"
#include "common/transport/testing/send_raw.h"
#include "common/transport/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::StartsWith;

constexpr std::chrono::seconds kLongEnough(40);

class HttpServerTest : public ::testing::Test {
 protected:
  // Runs `server` and returns its port.
  int Run(std::unique_ptr<HttpServer> server) {
    const absl::StatusOr<HostPort> bound = Bind({"127.0.0.1", 0}, *server);
    EXPECT_TRUE(bound.ok()) << bound.status();
    running_ = std::make_unique<RunningServer>(std::move(server), *bound);
    return bound->port;
  }

  std::unique_ptr<RunningServer> running_;
};

// Returns all bytes that come until the connection ends, which must be soon.
std::string ReceiveAll(int socket) {
  const timeval patience = {.tv_sec = kLongEnough.count(), .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string all;
  char part[4096];
  while (true) {
    const ssize_t size = recv(socket, part, sizeof part, 0);
    EXPECT_FALSE(size < 0 && errno == EAGAIN) << "it goes on";
    if (size <= 0) return all;
    all.append(part, static_cast<size_t>(size));
  }
}

TEST_F(HttpServerTest, CarriesLargeBodiesBothWays) {
  auto server = std::make_unique<HttpServer>();
  server->Post("/",
               [](const httplib::Request& request, httplib::Response& answer) {
                 answer.set_content(request.body, "text/plain");
               });
  const int port = Run(std::move(server));
  const std::string body(3'000'000, 'x');
  const httplib::Result answer =
      httplib::Client("127.0.0.1", port).Post("/", body, "text/plain");
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(answer->body == body);
}

TEST_F(HttpServerTest, AnswersARequestThatComesInPieces) {
  auto server = std::make_unique<HttpServer>();
  server->Get("/",
              [](const httplib::Request& request, httplib::Response& answer) {
                answer.set_content(request.remote_addr, "text/plain");
              });
  const UniqueFd client = ConnectLoopback(Run(std::move(server)));
  for (const char piece : std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    ASSERT_EQ(send(client.get(), &piece, 1, MSG_NOSIGNAL), 1);
  const std::string answer = ReceiveAll(client.get());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\n127.0.0.1")) << answer;
}

TEST_F(HttpServerTest, AClientThatSaysNothingLosesItsConnection) {
  auto server = std::make_unique<HttpServer>();
  server->set_read_timeout(0, 50'000);
  const UniqueFd silent = ConnectLoopback(Run(std::move(server)));
  EXPECT_EQ(ReceiveAll(silent.get()), "");
}

TEST_F(HttpServerTest, AClientThatTakesTooLongLosesItsConnection) {
  auto server = std::make_unique<HttpServer>();
  server->set_request_limit(absl::Milliseconds(50));
  const UniqueFd client = ConnectLoopback(Run(std::move(server)));
  // A byte at a time, each sooner than the library would give up waiting for it.
  const pollfd wanted = {.fd = client.get(), .events = POLLIN, .revents = 0};
  pollfd ended = wanted;
  int sent = 0;
  do {
    ASSERT_LT(++sent, 10'000) << "it goes on";
    if (send(client.get(), "x", 1, MSG_NOSIGNAL) != 1) break;
    ended = wanted;
  } while (poll(&ended, 1, /*timeout=*/10) == 0);
  EXPECT_GT(sent, 1);
}

TEST_F(HttpServerTest, StoppingBreaksConnectionsWithoutARequest) {
  auto server = std::make_unique<HttpServer>();
  server->set_read_timeout(3600);
  const int port = Run(std::move(server));
  const UniqueFd silent = ConnectLoopback(port);
  // The connections before this one are with the server once it has an answer.
  EXPECT_TRUE(httplib::Client("127.0.0.1", port).Get("/"));
  running_->Stop();
  EXPECT_EQ(ReceiveAll(silent.get()), "");
}

TEST_F(HttpServerTest, AStreamEndsWhenItsReaderIsGone) {
  std::promise<void> is_over;
  auto server = std::make_unique<HttpServer>();
  server->Get("/", [&](const httplib::Request&, httplib::Response& answer) {
    answer.set_chunked_content_provider(
        "text/plain",
        [has_written = false](size_t, httplib::DataSink& sink) mutable {
          if (std::exchange(has_written, true)) return sink.is_writable();
          return sink.write("x", 1);
        },
        [&](bool) { is_over.set_value(); });
  });
  UniqueFd reader = ConnectLoopback(Run(std::move(server)));
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(reader.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  char byte = 0;
  EXPECT_EQ(recv(reader.get(), &byte, 1, 0), 1);
  reader.Reset();
  EXPECT_EQ(is_over.get_future().wait_for(kLongEnough),
            std::future_status::ready);
  running_.reset();
}

}  // namespace
}  // namespace ringmaster
