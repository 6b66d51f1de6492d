#include "common/rpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/logging/testing/log_capture.h"
#include "common/rpc/channel.h"
#include "common/rpc/testing/raw_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(40);

bool Becomes(const std::function<bool()>& condition) {
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  while (!condition()) {
    if (Clock::Real().Now() > deadline) return false;
    usleep(1000);
  }
  return true;
}

// A client's socket, bound to an address of loopback.
class Client {
 public:
  explicit Client(const char* host = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Address(host, 0);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
  }

  void Connect(int port) {
    const sockaddr_in address = Address("127.0.0.1", port);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
  }

  // As gRPC names it.
  std::string name() const {
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return absl::StrCat("ipv4:", inet_ntoa(address.sin_addr), ":",
                        ntohs(address.sin_port));
  }

  // Returns true if the server has closed it. Servers of HTTP/2 speak first,
  // so that there may be bytes before.
  bool IsClosed() const {
    char bytes[4096];
    while (true) {
      const ssize_t size = recv(fd_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (size > 0) continue;
      return size == 0 || errno == ECONNRESET;
    }
  }

 private:
  static sockaddr_in Address(const char* host, int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  const UniqueFd fd_;
};

// A server that answers health checks.
class AcceptorTest : public ::testing::Test {
 protected:
  ~AcceptorTest() override {
    if (server_ == nullptr) return;
    acceptor_->Stop();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  void Serve(const HostPort& address, int max_strangers) {
    auto acceptor = Acceptor::Listen(address, max_strangers);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    acceptor_->AddTo(builder, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(&nothing_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    acceptor_->Start();
  }

  bool Answers(const std::string& host = "127.0.0.1") {
    RawStream check(
        MakeChannel(HostPort{host, acceptor_->address().port}.ToString(),
                    grpc::InsecureChannelCredentials(),
                    {.has_own_connection = true}),
        "/grpc.health.v1.Health/Check");
    check.Write(HealthRequest(""));
    check.WritesDone();
    return check.Read() == kServing;
  }

  std::unique_ptr<Client> Connect(const char* host = "127.0.0.1") {
    const int64_t before = total();
    auto client = std::make_unique<Client>(host);
    client->Connect(acceptor_->address().port);
    EXPECT_TRUE(Becomes([&] { return total() > before; }));
    return client;
  }

  // Connections that were taken so far and are not known to have ended.
  int64_t total() const {
    const ConnectionCounts counts = acceptor_->counts();
    return counts.members + counts.strangers + counts.dropped;
  }

  std::unique_ptr<Acceptor> acceptor_;
  grpc::CallbackGenericService nothing_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(AcceptorTest, ServesAtEveryAddressOfItsName) {
  Serve({"0.0.0.0", 0}, 10);
  EXPECT_GT(acceptor_->address().port, 0);
  EXPECT_EQ(acceptor_->address().host, "0.0.0.0");
  EXPECT_TRUE(Answers("127.0.0.1"));
  const UniqueFd v6(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (v6.is_open()) {
    EXPECT_TRUE(Answers("::1"));
  }
}

TEST_F(AcceptorTest, SaysWhyItCannotListen) {
  Serve({"127.0.0.1", 0}, 10);
  const auto second = Acceptor::Listen(acceptor_->address());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.status().message(), "cannot listen on " +
                                           acceptor_->address().ToString() +
                                           ": Address already in use");
}

TEST_F(AcceptorTest, GoesOnOnceDescriptorsAreFreeAgain) {
  Serve({"127.0.0.1", 0}, 10);
  ASSERT_TRUE(Answers());
  EXPECT_TRUE(Becomes([&] { return acceptor_->counts().strangers == 0; }));
  Client client;
  rlimit normal = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
  rlimit low = normal;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<UniqueFd> taken;
  while (true) {
    UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd.is_open()) break;
    taken.push_back(std::move(fd));
  }
  const LogCapture log;
  client.Connect(acceptor_->address().port);
  EXPECT_TRUE(Becomes([&] {
    return log.Contains("server.cannot_accept") &&
           log.Contains("Too many open files");
  }));
  EXPECT_EQ(acceptor_->counts().strangers, 0);
  taken.clear();
  EXPECT_TRUE(Becomes([&] { return acceptor_->counts().strangers == 1; }));
  EXPECT_TRUE(Answers());
  setrlimit(RLIMIT_NOFILE, &normal);
}

TEST_F(AcceptorTest, TakesTheDescriptorsThatTheHardLimitAllows) {
  rlimit normal = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
  rlimit low = normal;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseDescriptorLimit();
  rlimit raised = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur,
            std::min<rlim_t>(normal.rlim_max, kMostDescriptors));
  EXPECT_EQ(raised.rlim_max, normal.rlim_max);
  setrlimit(RLIMIT_NOFILE, &normal);
}

TEST_F(AcceptorTest, LeavesAReserveOfDescriptors) {
  Serve({"127.0.0.1", 0}, 10);
  std::vector<UniqueFd> taken;
  while (taken.empty() || taken.back().get() < 200)
    taken.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit normal = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
  rlimit low = normal;
  low.rlim_cur = 220;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const LogCapture log;
  const auto client = Connect();
  EXPECT_TRUE(Becomes([&] { return client->IsClosed(); }));
  EXPECT_EQ(acceptor_->counts().strangers, 0);
  EXPECT_EQ(acceptor_->counts().dropped, 1);
  EXPECT_TRUE(Becomes([&] {
    return log.Contains("of 220 descriptors (ulimit -n), only the reserve");
  }));
  setrlimit(RLIMIT_NOFILE, &normal);
}

TEST_F(AcceptorTest, OneStrangerTooManyTakesThePlaceOfTheOldest) {
  Serve({"127.0.0.1", 0}, 3);
  const LogCapture log;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(Connect());
  for (int i : {0, 1})
    EXPECT_TRUE(Becomes([&] { return clients[i]->IsClosed(); }));
  for (int i : {2, 3, 4}) EXPECT_FALSE(clients[i]->IsClosed());
  EXPECT_EQ(acceptor_->counts().strangers, 3);
  EXPECT_EQ(acceptor_->counts().dropped, 2);
  EXPECT_TRUE(Becomes([&] {
    return log.Contains("server.connections_dropped") &&
           log.Contains("last_host=127.0.0.1");
  }));
  // Those that leave make room.
  clients.clear();
  EXPECT_TRUE(Becomes([&] { return acceptor_->counts().strangers == 0; }));
  EXPECT_TRUE(Answers());
  EXPECT_EQ(acceptor_->counts().dropped, 2);
}

TEST_F(AcceptorTest, AHostThatFloodsPushesOutItsOwnConnections) {
  Serve({"127.0.0.1", 0}, 4);
  const auto quiet = Connect("127.0.0.2");
  std::vector<std::unique_ptr<Client>> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(Connect("127.0.0.3"));
  EXPECT_TRUE(Becomes([&] { return flood[16]->IsClosed(); }));
  EXPECT_FALSE(flood[17]->IsClosed());
  EXPECT_FALSE(quiet->IsClosed());
  // Nor does it keep newcomers from being served.
  EXPECT_TRUE(Answers());
}

TEST_F(AcceptorTest, AMembersConnectionStays) {
  Serve({"127.0.0.1", 0}, 2);
  const auto member = Connect();
  acceptor_->Admit(member->name());
  acceptor_->Admit(member->name());
  EXPECT_EQ(acceptor_->counts().members, 1);
  std::vector<std::unique_ptr<Client>> flood;
  for (int i = 0; i < 6; ++i) flood.push_back(Connect());
  EXPECT_TRUE(Becomes([&] { return flood[3]->IsClosed(); }));
  EXPECT_FALSE(member->IsClosed());
  // It has two sessions.
  acceptor_->Dismiss(member->name());
  EXPECT_EQ(acceptor_->counts().members, 1);
  acceptor_->Dismiss(member->name());
  EXPECT_EQ(acceptor_->counts().members, 0);
  flood.push_back(Connect());
  EXPECT_TRUE(Becomes([&] { return member->IsClosed(); }));
}

TEST_F(AcceptorTest, DescriptorSharesFollowTheLimit) {
  rlimit normal = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
  rlimit low = normal;
  const auto shares = [&](rlim_t limit) {
    low.rlim_cur = limit;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    const DescriptorShares now = DescriptorShares::Now(1000);
    return std::vector<int>{now.reserve, now.strangers, now.members};
  };
  EXPECT_EQ(shares(1024), (std::vector<int>{128, 224, 672}));
  EXPECT_EQ(shares(128), (std::vector<int>{48, 20, 60}));
  EXPECT_EQ(shares(10), (std::vector<int>{48, 1, 0}));
  setrlimit(RLIMIT_NOFILE, &normal);
}

}  // namespace
}  // namespace ringmaster
