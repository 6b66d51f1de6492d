#include "common/transport/establish.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/transport/socket_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A socket that holds a port of 127.0.0.1 without listening: connections to it
// are refused, a Listener may still bind it.
UniqueFd ReservePort() {
  UniqueFd reserved(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  EXPECT_EQ(
      setsockopt(reserved.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  const SocketAddress any = Resolve("127.0.0.1:0")->front();
  EXPECT_EQ(bind(reserved.get(), any.get(), any.length), 0);
  return reserved;
}

// Waits until `point`, which is armed, was passed `count` times.
void AwaitPasses(std::string_view point, int count) {
  const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(20);
  while (FailPoint::PassCount(point) < count &&
         Clock::Real().Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_GE(FailPoint::PassCount(point), count) << point;
}

// Rank 0 connects to rank 1, each on a thread of its own.
class EstablishTest : public ::testing::Test {
 protected:
  EstablishTest()
      : listener0_(*Listener::Listen("127.0.0.1:0")),
        listener1_(*Listener::Listen("127.0.0.1:0")) {}

  EstablishConfig ConfigOf(int rank) {
    EstablishConfig config;
    config.job_id = "job-1";
    config.generation = 7;
    config.rank = rank;
    config.secret = "a secret of at least sixteen bytes";
    config.clock = &Clock::Real();
    config.deadline = config.clock->Now() + absl::Seconds(20);
    config.on_refused = [this](const absl::Status& why) {
      std::lock_guard<std::mutex> lock(mutex_);
      refused_.emplace_back(why.message());
    };
    return config;
  }

  std::vector<PeerLink> ToRank1() const {
    return {{1, LinkRole::kCollective, listener1_.address().ToString()}};
  }
  static std::vector<PeerLink> FromRank0() {
    return {{0, LinkRole::kCollective, ""}};
  }

  absl::StatusOr<EstablishedLinks> Connect(const EstablishConfig& config) {
    return EstablishLinks(listener0_, config, ToRank1(), {});
  }
  absl::StatusOr<EstablishedLinks> Accept(const EstablishConfig& config) {
    return EstablishLinks(listener1_, config, {}, FromRank0());
  }

  // Runs the acceptor while `other` goes on; the acceptor must succeed with the
  // connector that follows.
  void ExpectOthersAreServed(const std::function<void()>& disturb) {
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    EstablishConfig config = ConfigOf(1);
    config.handshake_timeout = absl::Milliseconds(200);
    std::thread acceptor([&] { accepted = Accept(config); });
    disturb();
    // Over TCP, so that it queues behind the others.
    EstablishConfig last = ConfigOf(0);
    last.use_unix = false;
    const absl::StatusOr<EstablishedLinks> connected = Connect(last);
    acceptor.join();
    EXPECT_TRUE(connected.ok()) << connected.status();
    EXPECT_TRUE(accepted.ok()) << accepted.status();
  }

  UniqueFd RawClient() {
    UniqueFd client = *BeginConnect(listener1_.address());
    pollfd writable = {client.get(), POLLOUT, 0};
    EXPECT_EQ(poll(&writable, 1, 5000), 1);
    return client;
  }

  std::vector<std::string> refused() {
    std::lock_guard<std::mutex> lock(mutex_);
    return refused_;
  }

  Listener listener0_;
  Listener listener1_;
  std::mutex mutex_;
  std::vector<std::string> refused_;
};

TEST_F(EstablishTest, OnlyLinksToEncryptHaveKeysAndEachSideHasTheOthers) {
  for (const bool derives_keys : {false, true}) {
    EstablishConfig configs[] = {ConfigOf(0), ConfigOf(1)};
    for (EstablishConfig& config : configs) config.derives_keys = derives_keys;
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread acceptor([&] { accepted = Accept(configs[1]); });
    const absl::StatusOr<EstablishedLinks> connected = Connect(configs[0]);
    acceptor.join();
    ASSERT_TRUE(connected.ok()) << connected.status();
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    const std::optional<FrameKeys>& near = connected->connected[0].keys;
    const std::optional<FrameKeys>& far = accepted->accepted[0].keys;
    ASSERT_EQ(near.has_value(), derives_keys);
    ASSERT_EQ(far.has_value(), derives_keys);
    if (!derives_keys) continue;
    EXPECT_EQ(near->send, far->receive);
    EXPECT_EQ(near->receive, far->send);
    EXPECT_NE(near->send, near->receive);
  }
}

TEST_F(EstablishTest, ConnectsTwoRanksBothWays) {
  const std::vector<PeerLink> to0 = {
      {0, LinkRole::kCollective, listener0_.address().ToString()}};
  const std::vector<PeerLink> from1 = {{1, LinkRole::kCollective, ""}};
  absl::StatusOr<EstablishedLinks> one = absl::UnknownError("");
  std::thread thread(
      [&] { one = EstablishLinks(listener1_, ConfigOf(1), to0, FromRank0()); });
  const auto zero = EstablishLinks(listener0_, ConfigOf(0), ToRank1(), from1);
  thread.join();
  ASSERT_TRUE(zero.ok()) << zero.status();
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(zero->connected[0].link->peer(),
              HasSubstr("rank 1 at 127.0.0.1:"));
  std::array<char, 3> sent = {'a', 'b', 'c'};
  const iovec out = {sent.data(), sent.size()};
  EXPECT_EQ(*zero->connected[0].link->TryWrite(std::span(&out, 1)), 3u);
  pollfd readable = {one->accepted[0].link->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 5000), 1);
  std::array<char, 3> got = {};
  const iovec in = {got.data(), got.size()};
  EXPECT_EQ(*one->accepted[0].link->TryRead(std::span(&in, 1)), 3u);
  EXPECT_EQ(got, sent);
}

// A child of a worker would hide its death otherwise.
TEST_F(EstablishTest, NoDescriptorOutlivesAnExec) {
  for (const bool use_unix : {true, false}) {
    EstablishConfig config = ConfigOf(0);
    config.use_unix = use_unix;
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
    const auto connected = Connect(config);
    acceptor.join();
    ASSERT_TRUE(connected.ok()) << connected.status();
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    for (const int fd : {listener1_.fd(), listener1_.unix_fd(),
                         connected->connected[0].link->fd(),
                         accepted->accepted[0].link->fd()}) {
      EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC) << use_unix;
    }
  }
}

TEST_F(EstablishTest, AFailPointFailsAttemptsAndNoMore) {
  for (const char* const point :
       {"collective.connect", "collective.accept", "collective.handshake",
        "collective.handshake_accepted"}) {
    FailPoint::Arm(point, FailPoint::Action::kError);
    absl::StatusOr<EstablishedLinks> connected = absl::UnknownError("");
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread connector([&] { connected = Connect(ConfigOf(0)); });
    std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
    AwaitPasses(point, 2);
    FailPoint::Disarm(point);
    connector.join();
    acceptor.join();
    EXPECT_TRUE(connected.ok()) << point << ": " << connected.status();
    EXPECT_TRUE(accepted.ok()) << point << ": " << accepted.status();
  }
}

TEST_F(EstablishTest, WaitsForAPeerThatListensLater) {
  const UniqueFd reserved = ReservePort();
  const SocketAddress later = *LocalAddress(reserved.get());
  absl::StatusOr<EstablishedLinks> connected = absl::UnknownError("");
  const std::vector<PeerLink> peers = {
      {1, LinkRole::kCollective, later.ToString()}};
  FailPoint::Arm("collective.connect", FailPoint::Action::kOff);
  std::thread thread(
      [&] { connected = EstablishLinks(listener0_, ConfigOf(0), peers, {}); });
  // Refused over its Unix socket, over TCP, and so on.
  AwaitPasses("collective.connect", 4);
  FailPoint::Disarm("collective.connect");
  const Listener listener = *Listener::Listen(later.ToString());
  const auto accepted = EstablishLinks(listener, ConfigOf(1), {}, FromRank0());
  thread.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kUnix);
}

// It listens, but accepts only after the peer has already asked over TCP.
TEST_F(EstablishTest, MeetsALatePeerOverItsUnixSocketAllTheSame) {
  absl::StatusOr<EstablishedLinks> connected = absl::UnknownError("");
  EstablishConfig config = ConfigOf(0);
  config.handshake_timeout = absl::Seconds(1);
  std::thread thread([&] { connected = Connect(config); });
  pollfd asked_over_tcp = {listener1_.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&asked_over_tcp, 1, 20000), 1);
  const auto accepted = Accept(ConfigOf(1));
  thread.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kUnix);
}

TEST_F(EstablishTest, DoesNotSpinWhileTheProcessHasNoDescriptorLeft) {
  UniqueFd client = *BeginConnect(listener1_.address());
  const int lowest_free = dup(client.get());
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(lowest_free), before.rlim_max};
  EstablishConfig config = ConfigOf(1);
  config.deadline = config.clock->Now() + absl::Milliseconds(250);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto links = EstablishLinks(listener1_, config, {}, FromRank0());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(links.status())) << links.status();
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_GE(refused_.size(), 1u);
  EXPECT_LE(refused_.size(), 5u);
}

TEST_F(EstablishTest, AsksAgainForANameThatIsNotKnownYet) {
  EstablishConfig config = ConfigOf(0);
  config.deadline = config.clock->Now() + absl::Milliseconds(50);
  const auto links = EstablishLinks(
      listener0_, config,
      {{1, LinkRole::kCollective, "no-such-host.invalid:1"}}, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(links.status())) << links.status();
  EXPECT_THAT(std::string(links.status().message()),
              HasSubstr("cannot resolve 'no-such-host.invalid:1'"));
  EXPECT_EQ(BlamedPeer(links.status()), 1);
  EXPECT_TRUE(IsUnreached(links.status()));
}

TEST_F(EstablishTest, TellsThatNobodyListens) {
  EstablishConfig config = ConfigOf(0);
  config.deadline = config.clock->Now() + absl::Milliseconds(50);
  // Its port is free again.
  const std::string address =
      Listener::Listen("127.0.0.1:0")->address().ToString();
  const auto links = EstablishLinks(listener0_, config,
                                    {{1, LinkRole::kCollective, address}}, {});
  EXPECT_EQ(LinkFailureOf(links.status()), LinkFailure::kRefused)
      << links.status();
}

TEST_F(EstablishTest, NamesTheMissingPeersAtTheDeadline) {
  EstablishConfig config = ConfigOf(0);
  config.deadline = config.clock->Now() + absl::Milliseconds(50);
  const auto links = EstablishLinks(listener0_, config, ToRank1(),
                                    {{2, LinkRole::kCollective, ""}});
  EXPECT_TRUE(absl::IsDeadlineExceeded(links.status()));
  EXPECT_EQ(BlamedPeer(links.status()), 1);
  EXPECT_EQ(LinkFailureOf(links.status()), LinkFailure::kNoAnswer);
  EXPECT_THAT(
      std::string(links.status().message()),
      AllOf(HasSubstr("rank 0 at generation 7"),
            HasSubstr("to rank 1 at 127.0.0.1:"), HasSubstr("from rank 2")));
}

TEST_F(EstablishTest, IsCancelledFromAnotherThread) {
  CancelToken cancel;
  EstablishConfig config = ConfigOf(0);
  config.cancel = &cancel;
  absl::Status status;
  std::thread thread([&] { status = Connect(config).status(); });
  cancel.Cancel("generation 7 was halted");
  thread.join();
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(status.message(), "generation 7 was halted");
}

TEST_F(EstablishTest, RefusesAWrongSecretAndGoesOnWaiting) {
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
  EstablishConfig impostor = ConfigOf(0);
  impostor.secret = "not the secret of this generation";
  const absl::Status refused_status = Connect(impostor).status();
  EXPECT_TRUE(absl::IsUnauthenticated(refused_status)) << refused_status;
  EXPECT_TRUE(Connect(ConfigOf(0)).ok());
  acceptor.join();
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(refused(),
              Contains(HasSubstr("rank 1 (generation 7) refused rank 0")));
}

TEST_F(EstablishTest, RefusesAStaleGenerationForGood) {
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
  EstablishConfig stale = ConfigOf(0);
  stale.generation = 6;
  EXPECT_TRUE(absl::IsAborted(Connect(stale).status()));
  EXPECT_TRUE(Connect(ConfigOf(0)).ok());
  acceptor.join();
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(refused(), Contains(HasSubstr("its generation is over")));
}

TEST_F(EstablishTest, WaitsForAPeerThatIsAGenerationBehind) {
  CancelToken halt;
  EstablishConfig behind = ConfigOf(1);
  behind.generation = 6;
  behind.cancel = &halt;
  behind.on_refused = [&](const absl::Status&) {
    halt.Cancel("generation 6 is over");
  };
  absl::StatusOr<EstablishedLinks> connected = absl::UnknownError("");
  std::thread connector([&] { connected = Connect(ConfigOf(0)); });
  EXPECT_TRUE(absl::IsAborted(Accept(behind).status()));
  const auto accepted = Accept(ConfigOf(1));
  connector.join();
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_TRUE(connected.ok()) << connected.status();
}

TEST_F(EstablishTest, FailsWhenThePeerAwaitsSomebodyElse) {
  CancelToken done;
  EstablishConfig config = ConfigOf(1);
  config.cancel = &done;
  std::thread acceptor([&] {
    (void)EstablishLinks(listener1_, config, {},
                         {{5, LinkRole::kCollective, ""}});
  });
  const absl::Status status = Connect(ConfigOf(0)).status();
  done.Cancel("test over");
  acceptor.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("does not await rank 0"));
}

TEST_F(EstablishTest, GarbageDisturbsNobody) {
  std::vector<UniqueFd> clients;
  ExpectOthersAreServed([&] {
    clients.push_back(RawClient());
    const std::string garbage(300, 'x');
    EXPECT_EQ(send(clients.back().get(), garbage.data(), garbage.size(),
                   MSG_NOSIGNAL),
              300);
  });
  EXPECT_THAT(refused(), Contains(HasSubstr("does not speak our protocol")));
}

// Shorter than a handshake, so that its sender waits for an answer.
TEST_F(EstablishTest, AnHttpRequestIsAnsweredByHangingUpAtOnce) {
  UniqueFd client;
  ExpectOthersAreServed([&] {
    client = RawClient();
    EXPECT_EQ(send(client.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL),
              18);
    pollfd readable = {client.get(), POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, 20000), 1);
  });
  EXPECT_THAT(refused(),
              ElementsAre(AllOf(HasSubstr("connection from 127.0.0.1:"),
                                HasSubstr("does not speak our protocol: it "
                                          "began with \"GET \""))));
}

TEST_F(EstablishTest, AClientThatOnlyLooksIsNotWorthALine) {
  ExpectOthersAreServed([&] { (void)RawClient(); });
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(EstablishTest, WhoAwaitsNobodyEmptiesItsQueueAllTheSame) {
  const UniqueFd stays = RawClient();
  for (int i = 0; i < 3; ++i) (void)RawClient();
  ASSERT_TRUE(EstablishLinks(listener1_, ConfigOf(1), {}, {}).ok());
  EXPECT_FALSE(listener1_.TryAccept()->is_open());
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(EstablishTest, WhoMeetsAllOverUnixSocketsEmptiesItsQueueAllTheSame) {
  for (int i = 0; i < 9; ++i) (void)RawClient();
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
  const absl::StatusOr<EstablishedLinks> connected = Connect(ConfigOf(0));
  acceptor.join();
  EXPECT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->accepted[0].link->transport(), Transport::kUnix);
  EXPECT_FALSE(listener1_.TryAccept()->is_open());
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(EstablishTest, SilentClientsDisturbNobodyAndAreBounded) {
  std::vector<UniqueFd> clients;
  ExpectOthersAreServed([&] {
    for (int i = 0; i < 40; ++i) clients.push_back(RawClient());
  });
  EXPECT_THAT(refused(), Contains(HasSubstr("16 handshakes are unfinished")));
}

TEST_F(EstablishTest, DropsAClientThatStaysSilent) {
  const UniqueFd silent = RawClient();
  CancelToken seen;
  EstablishConfig config = ConfigOf(1);
  config.handshake_timeout = absl::Milliseconds(20);
  config.cancel = &seen;
  config.on_refused = [&](const absl::Status& why) {
    seen.Cancel(why.ToString());
  };
  const absl::Status status = Accept(config).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("silent for 20ms in the handshake"));
}

TEST_F(EstablishTest, RanksOfOneHostMeetOverAUnixSocket) {
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  std::thread acceptor([&] { accepted = Accept(ConfigOf(1)); });
  const auto connected = Connect(ConfigOf(0));
  acceptor.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kUnix);
  EXPECT_EQ(accepted->accepted[0].link->transport(), Transport::kUnix);
  EXPECT_EQ(
      connected->connected[0].link->peer(),
      absl::StrCat("rank 1 at ", listener1_.address().ToString(), " (unix)"));
  EXPECT_EQ(accepted->accepted[0].link->peer(),
            absl::StrCat("rank 0 at pid ", getpid(), " (unix)"));
}

// A rank hangs up like this when it ends its last generation while peers of the
// next already connect.
TEST_F(EstablishTest, AUnixSocketThatHangsUpOnceIsTriedAgain) {
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  EstablishConfig hanging_up = ConfigOf(1);
  hanging_up.on_refused = [](const absl::Status&) { FailPoint::DisarmAll(); };
  FailPoint::Arm("collective.accept", FailPoint::Action::kError);
  std::thread acceptor([&] { accepted = Accept(hanging_up); });
  const auto connected = Connect(ConfigOf(0));
  acceptor.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kUnix);
  EXPECT_EQ(accepted->accepted[0].link->transport(), Transport::kUnix);
}

TEST_F(EstablishTest, EitherSideMayInsistOnTcp) {
  for (const int unwilling : {0, 1}) {
    EstablishConfig configs[2] = {ConfigOf(0), ConfigOf(1)};
    configs[unwilling].use_unix = false;
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread acceptor([&] { accepted = Accept(configs[1]); });
    const auto connected = Connect(configs[0]);
    acceptor.join();
    ASSERT_TRUE(connected.ok()) << connected.status();
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    EXPECT_EQ(connected->connected[0].link->transport(), Transport::kTcp);
    EXPECT_EQ(accepted->accepted[0].link->transport(), Transport::kTcp);
  }
}

TEST_F(EstablishTest, EveryPairNeedsOneConnectionOnly) {
  constexpr int kRanks = 4;
  std::vector<Listener> listeners;
  for (int rank = 0; rank < kRanks; ++rank)
    listeners.push_back(*Listener::Listen("127.0.0.1:0"));
  std::vector<absl::StatusOr<EstablishedLinks>> links;
  for (int rank = 0; rank < kRanks; ++rank)
    links.emplace_back(absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<PeerLink> lower;
      std::vector<PeerLink> higher;
      for (int peer = 0; peer < rank; ++peer) {
        lower.push_back({peer, LinkRole::kCollective,
                         listeners[peer].address().ToString()});
      }
      for (int peer = rank + 1; peer < kRanks; ++peer)
        higher.push_back({peer, LinkRole::kCollective, ""});
      links[rank] =
          EstablishLinks(listeners[rank], ConfigOf(rank), lower, higher);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(links[rank].ok()) << links[rank].status();
    for (int peer = 0; peer < rank; ++peer) {
      EXPECT_THAT(links[rank]->connected[peer].link->peer(),
                  HasSubstr(absl::StrCat("rank ", peer, " at ")));
    }
    for (int peer = rank + 1; peer < kRanks; ++peer) {
      EXPECT_THAT(links[rank]->accepted[peer - rank - 1].link->peer(),
                  HasSubstr(absl::StrCat("rank ", peer, " at ")));
    }
  }
}

TEST_F(EstablishTest, RolesToOnePeerAreLinksOfTheirOwn) {
  std::vector<PeerLink> to = ToRank1();
  to.push_back({1, LinkRole::kSnapshot, to[0].address});
  absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
  std::thread acceptor([&] {
    accepted = EstablishLinks(
        listener1_, ConfigOf(1), {},
        {{0, LinkRole::kSnapshot, ""}, {0, LinkRole::kCollective, ""}});
  });
  const auto connected = EstablishLinks(listener0_, ConfigOf(0), to, {});
  acceptor.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->accepted.size(), 2u);
}

// Rank 1 has accepted rank 0 and goes on waiting for rank 2, or until it has
// reached rank 3, when rank 0 begins anew.
class ReturningPeerTest : public EstablishTest {
 protected:
  // Runs `meanwhile` once rank 0 is connected to an acceptor that waits for
  // `connect_to` and `accept_from`, and returns what the acceptor got.
  absl::StatusOr<EstablishedLinks> AcceptWhile(
      const std::vector<PeerLink>& connect_to,
      const std::vector<PeerLink>& accept_from,
      const std::function<void()>& meanwhile) {
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread acceptor([&] {
      accepted =
          EstablishLinks(listener1_, ConfigOf(1), connect_to, accept_from);
    });
    meanwhile();
    acceptor.join();
    return accepted;
  }

  // Expects that a byte written to `from` arrives at `to`.
  static void ExpectConnected(SocketLink& from, SocketLink& to) {
    char sent = 'x';
    const iovec out = {&sent, 1};
    ASSERT_EQ(*from.TryWrite(std::span(&out, 1)), 1u);
    pollfd readable = {to.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, 5000), 1);
    char got = 0;
    const iovec in = {&got, 1};
    const auto read = to.TryRead(std::span(&in, 1));
    EXPECT_TRUE(read.ok() && *read == 1u) << read.status();
  }
};

TEST_F(ReturningPeerTest, IsAcceptedAgainAfterItHasHungUp) {
  for (const bool use_unix : {true, false}) {
    EstablishConfig config = ConfigOf(0);
    config.use_unix = use_unix;
    absl::StatusOr<EstablishedLinks> again = absl::UnknownError("");
    absl::StatusOr<EstablishedLinks> rank2 = absl::UnknownError("");
    std::vector<PeerLink> both = FromRank0();
    both.push_back({2, LinkRole::kCollective, ""});
    const auto accepted = AcceptWhile({}, both, [&] {
      EXPECT_TRUE(Connect(config).ok());
      again = Connect(config);
      rank2 = EstablishLinks(listener0_, ConfigOf(2), ToRank1(), {});
    });
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    ExpectConnected(*again->connected[0].link, *accepted->accepted[0].link);
  }
}

TEST_F(ReturningPeerTest, IsAcceptedAgainWhenAllHaveBeenAccepted) {
  const UniqueFd reserved = ReservePort();
  const std::string rank3 = LocalAddress(reserved.get())->ToString();
  absl::StatusOr<EstablishedLinks> again = absl::UnknownError("");
  const auto accepted =
      AcceptWhile({{3, LinkRole::kCollective, rank3}}, FromRank0(), [&] {
        EXPECT_TRUE(Connect(ConfigOf(0)).ok());
        again = Connect(ConfigOf(0));
        const Listener listener = *Listener::Listen(rank3);
        EXPECT_TRUE(EstablishLinks(listener, ConfigOf(3), {},
                                   {{1, LinkRole::kCollective, ""}})
                        .ok());
      });
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  ExpectConnected(*again->connected[0].link, *accepted->accepted[0].link);
}

// An attempt of rank 0 to connect to rank 1, message by message.
class SlowAttempt {
 public:
  explicit SlowAttempt(UniqueFd socket)
      : socket_(std::move(socket)),
        handshake_(Handshake::Connector({.job = JobHash("job-1"),
                                         .generation = 7,
                                         .from_rank = 0,
                                         .to_rank = 1,
                                         .role = LinkRole::kCollective,
                                         .transport = Transport::kTcp},
                                        "a secret of at least sixteen bytes",
                                        *NewNonce())) {}

  void Begin() {
    Send(handshake_.Start());
    proof_ = handshake_.OnMessage(Receive())->send.value();
  }
  void Finish() {
    Send(proof_);
    EXPECT_EQ(Receive().type, HandshakeType::kAccept);
  }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  void Send(const HandshakeMessage& message) {
    const HandshakeBytes bytes = EncodeHandshake(message);
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  HandshakeMessage Receive() {
    HandshakeBytes bytes = {};
    for (size_t have = 0; have < bytes.size();) {
      pollfd readable = {socket_.get(), POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, 5000), 1);
      const ssize_t got = recv(socket_.get(), bytes.data() + have,
                               bytes.size() - have, MSG_DONTWAIT);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    return ParseHandshake(bytes).value_or(HandshakeMessage());
  }

  UniqueFd socket_;
  Handshake handshake_;
  HandshakeMessage proof_;
};

TEST_F(ReturningPeerTest, HasTheLaterOfItsAttemptsTaken) {
  for (const bool is_later_first : {false, true}) {
    std::vector<SlowAttempt> attempts;
    std::vector<PeerLink> both = FromRank0();
    both.push_back({2, LinkRole::kCollective, ""});
    absl::StatusOr<EstablishedLinks> rank2 = absl::UnknownError("");
    const auto accepted = AcceptWhile({}, both, [&] {
      for (int i = 0; i < 2; ++i) {
        attempts.emplace_back(RawClient());
        attempts.back().Begin();
      }
      attempts[is_later_first ? 1 : 0].Finish();
      attempts[is_later_first ? 0 : 1].Finish();
      rank2 = EstablishLinks(listener0_, ConfigOf(2), ToRank1(), {});
    });
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    SocketLink older(attempts[0].TakeSocket(), "rank 1");
    SocketLink later(attempts[1].TakeSocket(), "rank 1");
    EXPECT_TRUE(older.HasHungUp());
    EXPECT_FALSE(later.HasHungUp());
    ExpectConnected(later, *accepted->accepted[0].link);
  }
}

// Rank 1 listens on an address of its own, but with the port, and so the name
// of the Unix socket, of a stranger.
class StrangerTest : public EstablishTest {
 protected:
  StrangerTest()
      : tcp_only_(
            *Listener::Listen(absl::StrCat("127.0.0.2:", listener1_.port()))) {}

  // Rank 0 connects to rank 1 while the stranger runs with the config
  // `stranger`.
  void ExpectTcpDespite(EstablishConfig stranger,
                        const std::vector<PeerLink>& awaited) {
    EXPECT_FALSE(tcp_only_.unix_status().ok());
    EXPECT_EQ(tcp_only_.unix_fd(), -1);
    CancelToken over;
    stranger.cancel = &over;
    std::thread other(
        [&] { (void)EstablishLinks(listener1_, stranger, {}, awaited); });
    const auto connected = ConnectToTcpOnly(ConfigOf(0));
    over.Cancel("test over");
    other.join();
    ASSERT_TRUE(connected.ok()) << connected.status();
    EXPECT_EQ(connected->connected[0].link->transport(), Transport::kTcp);
    EXPECT_EQ(connected->connected[0].link->peer(),
              absl::StrCat("rank 1 at ", tcp_only_.address().ToString()));
  }

  absl::StatusOr<EstablishedLinks> ConnectToTcpOnly(
      const EstablishConfig& config) {
    absl::StatusOr<EstablishedLinks> accepted = absl::UnknownError("");
    std::thread acceptor([&] {
      accepted = EstablishLinks(tcp_only_, ConfigOf(1), {}, FromRank0());
    });
    const std::vector<PeerLink> peers = {
        {1, LinkRole::kCollective, tcp_only_.address().ToString()}};
    auto connected = EstablishLinks(listener0_, config, peers, {});
    acceptor.join();
    EXPECT_TRUE(accepted.ok()) << accepted.status();
    return connected;
  }

  Listener tcp_only_;
};

TEST_F(StrangerTest, OfAnotherJobIsLeftForTcp) {
  EstablishConfig stranger = ConfigOf(1);
  stranger.job_id = "job-2";
  ExpectTcpDespite(stranger, FromRank0());
}

TEST_F(StrangerTest, OfAnotherRankIsLeftForTcp) {
  ExpectTcpDespite(ConfigOf(2), FromRank0());
}

TEST_F(StrangerTest, OfALaterGenerationIsLeftForTcp) {
  EstablishConfig stranger = ConfigOf(1);
  stranger.generation = 8;
  ExpectTcpDespite(stranger, FromRank0());
}

TEST_F(StrangerTest, WithAnotherSecretIsLeftForTcp) {
  EstablishConfig stranger = ConfigOf(1);
  stranger.secret = "not the secret of this generation";
  ExpectTcpDespite(stranger, FromRank0());
}

// Passes bytes from the one connection to the other until either closes.
void Relay(int first, int second) {
  pollfd polled[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  while (poll(polled, 2, 5000) > 0) {
    for (int from = 0; from < 2; ++from) {
      if (polled[from].revents == 0) continue;
      std::array<char, 256> bytes;
      const ssize_t got = recv(polled[from].fd, bytes.data(), bytes.size(), 0);
      if (got <= 0) return;
      EXPECT_EQ(send(polled[1 - from].fd, bytes.data(),
                     static_cast<size_t>(got), MSG_NOSIGNAL),
                got);
    }
  }
}

// It does not know the secret, but relays the messages of those who do.
TEST_F(StrangerTest, ThatRelaysIsLeftForTcp) {
  std::thread relay([&] {
    pollfd readable = {listener1_.unix_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, 5000), 1);
    const UniqueFd from = *listener1_.TryAcceptUnix();
    const UniqueFd to = *BeginConnect(tcp_only_.address());
    pollfd writable = {to.get(), POLLOUT, 0};
    ASSERT_EQ(poll(&writable, 1, 5000), 1);
    Relay(from.get(), to.get());
  });
  const auto connected = ConnectToTcpOnly(ConfigOf(0));
  relay.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kTcp);
  EXPECT_THAT(refused(),
              ElementsAre(AllOf(
                  HasSubstr("rank 1 (generation 7) refused rank 0"),
                  HasSubstr("over unix and reached us over tcp, so somebody "
                            "in between relays it"))));
}

TEST_F(StrangerTest, ThatNeverAnswersIsLeftForTcp) {
  EstablishConfig config = ConfigOf(0);
  config.handshake_timeout = absl::Milliseconds(500);
  const auto connected = ConnectToTcpOnly(config);
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_EQ(connected->connected[0].link->transport(), Transport::kTcp);
}

TEST_F(StrangerTest, DoesNotHideAWrongSecret) {
  CancelToken over;
  EstablishConfig accepting = ConfigOf(1);
  accepting.cancel = &over;
  std::thread acceptor([&] { (void)Accept(accepting); });
  EstablishConfig impostor = ConfigOf(0);
  impostor.secret = "not the secret of this generation";
  const absl::Status status = Connect(impostor).status();
  over.Cancel("test over");
  acceptor.join();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  // Over the Unix socket, then over TCP.
  EXPECT_EQ(refused().size(), 2u);
}

TEST_F(EstablishTest, RefusesABadConfiguration) {
  EstablishConfig config = ConfigOf(0);
  config.secret = "short";
  EXPECT_TRUE(absl::IsInvalidArgument(Connect(config).status()));
  config = ConfigOf(0);
  config.generation = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(Connect(config).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      EstablishLinks(listener0_, ConfigOf(0),
                     {{1, LinkRole::kCollective, "nowhere"}}, {})
          .status()));
}

}  // namespace
}  // namespace ringmaster
