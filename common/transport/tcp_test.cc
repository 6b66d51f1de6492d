#include "common/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/socket_address.h"
#include "common/transport/unix_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// Connects to `listener` and returns both ends.
std::pair<UniqueFd, UniqueFd> Connect(const Listener& listener) {
  UniqueFd client = *BeginConnect(listener.address());
  pollfd writable = {client.get(), POLLOUT, 0};
  EXPECT_EQ(poll(&writable, 1, 5000), 1);
  EXPECT_TRUE(ConnectResult(client.get()).ok());
  pollfd readable = {listener.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 5000), 1);
  UniqueFd server = *listener.TryAccept();
  EXPECT_TRUE(server.is_open());
  return {std::move(client), std::move(server)};
}

TEST(SocketAddressTest, ResolvesBothFamilies) {
  EXPECT_EQ(Resolve("127.0.0.1:80")->front().ToString(), "127.0.0.1:80");
  EXPECT_EQ(Resolve("[::1]:80")->front().ToString(), "[::1]:80");
  EXPECT_EQ(Resolve("[::1]:80")->front().port(), 80);
}

TEST(SocketAddressTest, SaysWhichNameHasNoAddress) {
  // Longer than a DNS label may be, so that no name server is asked.
  const std::string name(64, 'n');
  const absl::Status status = Resolve(name + ":1").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(name));
}

TEST(ListenerTest, ReportsTheChosenPortAndAccepts) {
  const absl::StatusOr<Listener> listener = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_NE(listener->port(), 0);
  EXPECT_FALSE(listener->TryAccept()->is_open());
  Connect(*listener);
}

TEST(ListenerTest, ListensOnIpv6AndTakesIpv4) {
  const absl::StatusOr<Listener> listener = Listener::Listen("[::]:0");
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  UniqueFd v4 = *BeginConnect(
      Resolve("127.0.0.1:" + std::to_string(listener->port()))->front());
  pollfd readable = {listener->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 5000), 1);
  EXPECT_TRUE(listener->TryAccept()->is_open());
}

TEST(ListenerTest, SaysWhichAddressIsTaken) {
  const absl::StatusOr<Listener> first = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const absl::Status status =
      Listener::Listen(first->address().ToString()).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr(first->address().ToString()));
}

TEST(SocketAddressTest, KnowsTheAddressesOfThisHost) {
  for (const char* const own :
       {"127.0.0.1:1", "127.3.4.5:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(IsOfThisHost(Resolve(own)->front())) << own;
  }
  // Addresses of the ranges for documentation.
  for (const char* const other :
       {"192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"}) {
    EXPECT_FALSE(IsOfThisHost(Resolve(other)->front())) << other;
  }
}

TEST(SocketAddressTest, TellsTheAddressOfAnInterface) {
  const absl::StatusOr<std::string> address = AddressOfInterface("lo");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.1");
  const absl::Status status = AddressOfInterface("nonesuch0").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("'nonesuch0'"), HasSubstr("lo")));
}

TEST(ListenerTest, TakesTheFirstFreePortOfARange) {
  const Listener first = *Listener::Listen("127.0.0.1:0");
  const uint16_t taken = first.port();
  const absl::Status full =
      Listener::ListenInRange("127.0.0.1", taken, taken).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()),
              HasSubstr(absl::StrCat("127.0.0.1: all ports from ", taken,
                                     " to ", taken, " are in use")));
  const uint16_t low = taken > 65000 ? taken - 500 : taken;
  const absl::StatusOr<Listener> next =
      Listener::ListenInRange("127.0.0.1", low, low + 500);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GE(next->port(), low);
  EXPECT_LE(next->port(), low + 500);
  EXPECT_NE(next->port(), taken);
  Connect(*next);
}

TEST(ListenerTest, RefusesARangeThatIsNone) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      Listener::ListenInRange("127.0.0.1", 5, 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Listener::ListenInRange("127.0.0.1", 0, 4).status()));
  const absl::Status foreign =
      Listener::ListenInRange("192.0.2.1", 4000, 5000).status();
  EXPECT_TRUE(absl::IsUnavailable(foreign)) << foreign;
}

TEST(ListenerTest, ListensOnAUnixSocketBesides) {
  const Listener listener = *Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.unix_status().ok()) << listener.unix_status();
  EXPECT_FALSE(listener.TryAcceptUnix()->is_open());
  const absl::StatusOr<UniqueFd> client = ConnectUnix(listener.port());
  ASSERT_TRUE(client.ok()) << client.status();
  pollfd readable = {listener.unix_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 5000), 1);
  const UniqueFd server = *listener.TryAcceptUnix();
  ASSERT_TRUE(server.is_open());
  EXPECT_EQ(UnixPeerName(server.get()),
            absl::StrCat("pid ", getpid(), " (unix)"));
}

TEST(ListenerTest, DoesWithoutAUnixSocketWhoseNameIsTaken) {
  const Listener first = *Listener::Listen("127.0.0.1:0");
  const absl::StatusOr<Listener> second =
      Listener::Listen(absl::StrCat("127.0.0.2:", first.port()));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->unix_fd(), -1);
  EXPECT_THAT(std::string(second->unix_status().message()),
              HasSubstr(absl::StrCat("@ringmaster-data/", first.port(), ": ")));
  Connect(*second);
}

TEST(UnixSocketTest, SaysWhereNobodyListens) {
  const absl::Status status = ConnectUnix(0).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused"));
}

TEST(TcpTest, SetsItsOptionsOnBothEnds) {
  const absl::StatusOr<Listener> listener = Listener::Listen("127.0.0.1:0");
  const auto [client, server] = Connect(*listener);
  for (const UniqueFd* end : {&client, &server}) {
    int no_delay = 0;
    socklen_t length = sizeof no_delay;
    ASSERT_EQ(
        getsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length),
        0);
    EXPECT_NE(no_delay, 0);
    char control[16] = "";
    length = sizeof control;
    ASSERT_EQ(
        getsockopt(end->get(), IPPROTO_TCP, TCP_CONGESTION, control, &length),
        0);
    EXPECT_STRNE(control, "bbr");
  }
}

TEST(TcpTest, ChoosesCubicOrRenoInPlaceOfBbrOnly) {
  EXPECT_EQ(LocalCongestionControl("bbr", "reno bbr cubic"), "cubic");
  EXPECT_EQ(LocalCongestionControl("bbr", "reno bbr"), "reno");
  EXPECT_EQ(LocalCongestionControl("bbr", "bbr"), "");
  EXPECT_EQ(LocalCongestionControl("cubic", "reno bbr cubic"), "");
  EXPECT_EQ(LocalCongestionControl("dctcp", "reno cubic"), "");
}

TEST(TcpTest, TellsARefusedConnection) {
  // Bound and not listening: nobody else can listen there meanwhile.
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = Resolve("127.0.0.1:0")->front();
  ASSERT_EQ(bind(silent.get(), any.get(), any.length), 0);
  const SocketAddress nobody = *LocalAddress(silent.get());
  const absl::StatusOr<UniqueFd> client = BeginConnect(nobody);
  absl::Status status = client.status();
  if (client.ok()) {
    pollfd writable = {client->get(), POLLOUT, 0};
    EXPECT_EQ(poll(&writable, 1, 5000), 1);
    status = ConnectResult(client->get());
  }
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("refused"));
}

}  // namespace
}  // namespace ringmaster
