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
// Far more than the kernel's slowest reaction takes: it bounds hangs, not
// speed.
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

void LetTheKernelWork() {
  std::array<pollfd, 1> nothing = {pollfd{-1, 0, 0}};
  EXPECT_TRUE(WaitIo(nothing, absl::Milliseconds(10)).ok());
}

// Returns how often the kernel doubled its wait for an answer.
int Backoff(const Link& link) {
  tcp_info state = {};
  socklen_t length = sizeof state;
  EXPECT_EQ(getsockopt(link.fd(), IPPROTO_TCP, TCP_INFO, &state, &length), 0);
  return state.tcpi_backoff;
}

void AwaitUnanswered(const Link& link, bool wanted) {
  for (int i = 0; i < kManyLooks && IsUnanswered(link.fd()) != wanted; ++i)
    LetTheKernelWork();
  EXPECT_EQ(IsUnanswered(link.fd()), wanted);
}

// Looks, and lets the kernel work in between, until the peer is given up.
// The link's time runs by a limit with each look.
absl::Status LookUntilGivenUp(Link& link) {
  MonotonicTime now;
  for (int look = 0; look < kManyLooks; ++look) {
    now += kLimit;
    const absl::Status status = link.CheckPeer(now);
    if (!status.ok()) return status;
    LetTheKernelWork();
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
  // The receiver's side has nothing to send, so only probes can tell.
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
  for (int full = 0; full < 20;) {
    const size_t now = Write(link, 1 << 20);
    written += now;
    full = now == 0 ? full + 1 : 0;
    LetTheKernelWork();
  }
  EXPECT_GT(written, 0u);
  // The kernel asks for room again and again, ever more rarely, as it would ask
  // a dead peer; but this one answers. A limit is 16 looks, since an answer may
  // well take one.
  MonotonicTime now;
  for (int look = 0; look < kManyLooks && Backoff(link) < 4; ++look) {
    now += kLimit / 16;
    ASSERT_TRUE(link.CheckPeer(now).ok()) << "look " << look;
    LetTheKernelWork();
  }
  EXPECT_GE(Backoff(link), 4);
}

TEST(SocketLinkTest, SilenceIsForgottenOnceThePeerAnswers) {
  Ends ends = Connect();
  SocketLink link(std::move(ends.client), "rank 1 at b:9", kLimit);
  const auto be_unanswered = [&] {
    DropAllThatArrives(ends.server.get());
    EXPECT_GT(Write(link, 100), 0u);
    AwaitUnanswered(link, true);
  };
  const MonotonicTime start = MonotonicTime() + kLimit;
  be_unanswered();
  EXPECT_TRUE(link.CheckPeer(start).ok());
  int none = 0;
  ASSERT_EQ(setsockopt(ends.server.get(), SOL_SOCKET, SO_DETACH_FILTER, &none,
                       sizeof none),
            0);
  AwaitUnanswered(link, false);
  EXPECT_TRUE(link.CheckPeer(start + kLimit / 2).ok());
  be_unanswered();
  EXPECT_TRUE(link.CheckPeer(start + 2 * kLimit).ok());
  EXPECT_TRUE(absl::IsUnavailable(link.CheckPeer(start + 3 * kLimit)));
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

TEST(SocketLinkTest, TellsWhetherTheOtherSideHasHungUpWithoutReading) {
  Ends ends = Connect();
  SocketLink link(std::move(ends.client), "rank 1 at b:9");
  EXPECT_EQ(send(ends.server.get(), "last", 4, MSG_NOSIGNAL), 4);
  EXPECT_FALSE(link.HasHungUp());
  ends.server.Reset();
  pollfd hung_up = {link.fd(), POLLRDHUP, 0};
  ASSERT_EQ(poll(&hung_up, 1, 5000), 1);
  EXPECT_TRUE(link.HasHungUp());
  std::array<char, 8> text = {};
  const iovec part = {text.data(), text.size()};
  EXPECT_EQ(*link.TryRead(std::span(&part, 1)), 4u);
}

TEST(SocketLinkTest, WithoutALimitNobodyIsGivenUp) {
  Ends ends = Connect();
  DropAllThatArrives(ends.server.get());
  SocketLink link(std::move(ends.client), "rank 1 at b:9");
  ASSERT_GT(Write(link, 100), 0u);
  AwaitUnanswered(link, true);
  EXPECT_TRUE(link.CheckPeer(MonotonicTime() + absl::Hours(1)).ok());
  EXPECT_TRUE(link.CheckPeer(MonotonicTime() + absl::Hours(2)).ok());
}

TEST(SocketLinkTest, IsHeldToARateAndSaysUntilWhen) {
  Ends ends = Connect();
  SocketLink near(std::move(ends.client), "rank 1 at b");
  EXPECT_EQ(near.HeldFd(true), -1) << "without a rate";
  // Eight seconds for what may pass at once.
  LinkRate slow(1000);
  near.HoldTo(&slow);
  const size_t first = Write(near, 100'000);
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, 100'000u);
  EXPECT_EQ(near.HeldFd(true), -1) << "what it took was not held";
  EXPECT_EQ(Write(near, 100'000), 0u);
  EXPECT_GE(near.HeldFd(true), 0);
  EXPECT_EQ(near.HeldFd(false), -1) << "the other direction is apart";
}

TEST(SocketLinkTest, ARateLetsEverythingThroughInTime) {
  Ends ends = Connect();
  SocketLink near(std::move(ends.client), "rank 1 at b");
  SocketLink far(std::move(ends.server), "rank 0 at a");
  LinkRate rate(10e6);
  near.HoldTo(&rate);
  constexpr size_t kBytes = 200'000;
  std::vector<char> text(kBytes);
  size_t written = 0;
  size_t read = 0;
  for (int look = 0; look < kManyLooks && read < kBytes; ++look) {
    if (written < kBytes) written += Write(near, kBytes - written);
    const iovec part = {text.data(), text.size()};
    const absl::StatusOr<size_t> got = far.TryRead(std::span(&part, 1));
    ASSERT_TRUE(got.ok()) << got.status();
    read += *got;
    pollfd held = {near.HeldFd(true), POLLIN, 0};
    // A descriptor that is not there is never ready.
    ASSERT_EQ(poll(&held, 1, held.fd >= 0 ? 5000 : 0), held.fd >= 0 ? 1 : 0);
  }
  EXPECT_EQ(read, kBytes);
}

}  // namespace
}  // namespace ringmaster
