#include "common/transport/socket_link.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <span>
#include <vector>

#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/wait_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(5);
// More than the kernel's slowest reaction by far: a hang, not a pace, is what
// the tests are bounded against.
constexpr int kManyLooks = 2000;

struct Ends {
  UniqueFd client;
  UniqueFd server;
};

Ends Connect() {
  const Listener listener = *Listener::Listen("127.0.0.1:0");
  Ends ends;
  ends.client = *BeginConnect(listener.address());
  pollfd writable = {ends.client.get(), POLLOUT, 0};
  EXPECT_EQ(poll(&writable, 1, 5000), 1);
  EXPECT_TRUE(ConnectResult(ends.client.get()).ok());
  pollfd readable = {listener.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 5000), 1);
  ends.server = *listener.TryAccept();
  return ends;
}

// From now on all that arrives at `socket` is dropped before TCP sees it, as by
// a network that loses everything in this direction.
void DropAllThatArrives(int socket) {
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {1, &drop};
  ASSERT_EQ(setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                       sizeof program),
            0);
}

size_t Write(Link& link, size_t bytes) {
  std::vector<char> text(bytes, 'x');
  const iovec part = {text.data(), text.size()};
  const absl::StatusOr<size_t> written = link.TryWrite(std::span(&part, 1));
  EXPECT_TRUE(written.ok()) << written.status();
  return written.ok() ? *written : 0;
}

// Looks, and lets the kernel work in between, until the peer is given up.
// The link's time runs by a limit with each look.
absl::Status LookUntilGivenUp(Link& link) {
  MonotonicTime now;
  for (int look = 0; look < kManyLooks; ++look) {
    now += kLimit;
    const absl::Status status = link.CheckPeer(now);
    if (!status.ok()) return status;
    std::array<pollfd, 1> nothing = {pollfd{-1, 0, 0}};
    EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
  }
  return absl::OkStatus();
}

TEST(SocketLinkTest, NoticesThatNothingSentIsAcknowledged) {
  Ends ends = Connect();
  DropAllThatArrives(ends.server.get());
  SocketLink link(std::move(ends.client), "rank 1 at b:9", kLimit);
  ASSERT_GT(Write(link, 100), 0u);
  const absl::Status status = LookUntilGivenUp(link);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1 at b:9 has acknowledged nothing for 5s"));
}

TEST(SocketLinkTest, NoticesThatAcknowledgementsAreLost) {
  Ends ends = Connect();
  DropAllThatArrives(ends.client.get());
  SocketLink link(std::move(ends.client), "rank 1 at b:9", kLimit);
  ASSERT_GT(Write(link, 100), 0u);
  EXPECT_TRUE(absl::IsUnavailable(LookUntilGivenUp(link)));
}

TEST(SocketLinkTest, NoticesThatASilentPeerIsGone) {
  // The receiver's side: it has nothing to send, so only probes tell.
  Ends ends = Connect();
  DropAllThatArrives(ends.client.get());
  SocketLink link(std::move(ends.server), "rank 0 at a:9", kLimit);
  EXPECT_TRUE(absl::IsUnavailable(LookUntilGivenUp(link)));
}

TEST(SocketLinkTest, APeerThatReadsNothingIsAlive) {
  Ends ends = Connect();
  SocketLink link(std::move(ends.client), "rank 1 at b:9", kLimit);
  // Until both ends' buffers are full and the window is closed.
  size_t written = 0;
  std::array<pollfd, 1> nothing = {pollfd{-1, 0, 0}};
  for (int full = 0; full < 20;) {
    const size_t now = Write(link, 1 << 20);
    written += now;
    full = now == 0 ? full + 1 : 0;
    EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
  }
  EXPECT_GT(written, 0u);
  MonotonicTime now;
  for (int look = 0; look < 50; ++look) {
    now += kLimit;
    EXPECT_TRUE(link.CheckPeer(now).ok());
    EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
  }
}

TEST(SocketLinkTest, SilenceIsForgottenOnceThePeerAnswers) {
  Ends ends = Connect();
  DropAllThatArrives(ends.server.get());
  SocketLink link(std::move(ends.client), "rank 1 at b:9", kLimit);
  ASSERT_GT(Write(link, 100), 0u);
  std::array<pollfd, 1> nothing = {pollfd{-1, 0, 0}};
  for (int i = 0; i < kManyLooks && !IsUnanswered(link.fd()); ++i) {
    EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
  }
  const MonotonicTime start = MonotonicTime() + kLimit;
  EXPECT_TRUE(link.CheckPeer(start).ok());
  int none = 0;
  ASSERT_EQ(setsockopt(ends.server.get(), SOL_SOCKET, SO_DETACH_FILTER, &none,
                       sizeof none),
            0);
  for (int i = 0; i < kManyLooks && IsUnanswered(link.fd()); ++i) {
    EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
  }
  EXPECT_TRUE(link.CheckPeer(start + 2 * kLimit).ok());
}

TEST(SocketLinkTest, ProbesAnIdleLinkWithinItsLimit) {
  const auto option = [](const Ends& ends, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    EXPECT_EQ(getsockopt(ends.client.get(), IPPROTO_TCP, name, &value, &length),
              0);
    return value;
  };
  const std::pair<absl::Duration, int> cases[] = {{absl::Milliseconds(100), 3},
                                                  {absl::Seconds(3), 3},
                                                  {absl::Milliseconds(3500), 4},
                                                  {absl::Seconds(7), 7},
                                                  {absl::Seconds(60), 60}};
  for (const auto& [limit, seconds] : cases) {
    const Ends ends = Connect();
    ProbeWhenIdle(ends.client.get(), limit);
    EXPECT_EQ(option(ends, TCP_KEEPIDLE) +
                  option(ends, TCP_KEEPINTVL) * option(ends, TCP_KEEPCNT),
              seconds);
  }
}

TEST(SocketLinkTest, WithoutALimitNobodyIsGivenUp) {
  Ends ends = Connect();
  DropAllThatArrives(ends.server.get());
  SocketLink link(std::move(ends.client), "rank 1 at b:9");
  ASSERT_GT(Write(link, 100), 0u);
  EXPECT_TRUE(link.CheckPeer(MonotonicTime() + absl::Hours(1)).ok());
  EXPECT_TRUE(link.CheckPeer(MonotonicTime() + absl::Hours(2)).ok());
}

}  // namespace
}  // namespace ringmaster
