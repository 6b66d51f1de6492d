#include <poll.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/views/packet_socket.h"
#include "worker/views/view.h"
#include "worker/views/view_client.h"
#include "worker/views/view_server.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MonotonicTime In(absl::Duration duration) {
  return Clock::Real().Now() + duration;
}

// Has the server look until `is_done`.
template <typename Condition>
void LookUntil(ViewServer& server, const Condition& is_done) {
  const MonotonicTime deadline = In(absl::Seconds(30));
  while (!is_done() && Clock::Real().Now() < deadline) {
    pollfd readable = {.fd = server.fd(), .events = POLLIN, .revents = 0};
    (void)::poll(&readable, 1, 100);
    server.Look();
  }
  EXPECT_TRUE(is_done());
}

std::unique_ptr<ViewClient> ConnectTo(ViewServer& server) {
  std::unique_ptr<ViewClient> client;
  std::thread connects([&] {
    auto connected =
        ViewClient::Connect(server.name(), absl::Seconds(30), Clock::Real());
    EXPECT_TRUE(connected.ok()) << connected.status();
    client = *std::move(connected);
  });
  pollfd readable = {.fd = server.fd(), .events = POLLIN, .revents = 0};
  (void)::poll(&readable, 1, 30000);
  server.Look();
  connects.join();
  return client;
}

TEST(ViewPacketTest, EveryMessageComesBack) {
  const std::vector<ViewMessage> messages = {
      ViewHello(),
      View{7, {0, 2, 4095}, "rank 1 was killed"},
      View{1, {3}, ""},
      NoView{3},
      View{7, {0, 1}, "", {{1, 1, "a|b:1"}, {2, 1, "a|b,c:2"}}},
      TakesNewcomers{"id|secret"},
      Joins{"a|b:1"},
      Meets{true},
      Meets{false},
      CanGoOn{1, 4},
      LostRank{2, 6}};
  for (const ViewMessage& message : messages) {
    const auto parsed = ParseViewPacket(ToPacket(message));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, message) << ToPacket(message);
  }
}

TEST(ViewPacketTest, OthersAreRefused) {
  for (const std::string packet : {"",
                                   "hello you",
                                   "view",
                                   "view 0 1,2  x",
                                   "view 1   x",
                                   "view 1 2,1  x",
                                   "view 1 1,1  x",
                                   "view 1 -1  x",
                                   "view x 1  x",
                                   "no_view",
                                   "no_view -1",
                                   "view 1 1",
                                   "view 1 1 2,3 x",
                                   "view 1 1 1,2,a;1,3,b x",
                                   "view 1 1 x,2,a x",
                                   "joins",
                                   "joins ",
                                   "joins a b",
                                   "takes_newcomers",
                                   "can_go_on 1",
                                   "can_go_on 1 2 3",
                                   "lost 1",
                                   "lost -1 0",
                                   "lost 99999999999 0",
                                   "something"}) {
    EXPECT_EQ(ParseViewPacket(packet).status().code(),
              absl::StatusCode::kInvalidArgument)
        << packet;
  }
}

TEST(ViewPacketTest, ARankIsTheLastNewcomerInItsPlace) {
  const View view = {9, {0, 1, 2}, "", {{1, 1, "a"}, {2, 2, "b"}, {3, 1, "c"}}};
  EXPECT_EQ(view.NewcomerOf(0), 0);
  EXPECT_EQ(view.NewcomerOf(1), 3);
  EXPECT_EQ(view.NewcomerOf(2), 2);
}

TEST(ViewPacketTest, AllRanksAreInTheFirstView) {
  EXPECT_TRUE(View().Has(5));
  EXPECT_TRUE((View{1, {0, 5}, ""}.Has(5)));
  EXPECT_FALSE((View{1, {0, 5}, ""}.Has(4)));
}

TEST(ViewsTest, AWorkerHearsWhatItsCommandCanDoAndHasLost) {
  const auto server = ViewServer::Listen(1, 4).value();
  const auto client = ConnectTo(*server);
  EXPECT_FALSE(server->can_go_on());
  client->TellCanGoOn(1, 4);
  LookUntil(*server, [&] { return server->can_go_on(); });
  client->TellLost(3, 0);
  LookUntil(*server, [&] { return !server->lost().empty(); });
  EXPECT_THAT(server->lost(), ElementsAre(3));
}

TEST(ViewsTest, AWorkerHearsOfNewcomers) {
  const auto server = ViewServer::Listen(1, 4).value();
  auto client = ConnectTo(*server);
  client->TellTakesNewcomers("group");
  EXPECT_FALSE(server->has_attached());
  LookUntil(*server, [&] { return server->group() == "group"; });
  client->TellJoins("member");
  LookUntil(*server, [&] { return server->member() == "member"; });
  client.reset();
  LookUntil(*server, [&] { return server->group().empty(); });
  EXPECT_EQ(server->member(), "");
  EXPECT_TRUE(server->has_attached());
}

TEST(ViewsTest, ACommandMeetsTheOthersUntilItHas) {
  const auto server = ViewServer::Listen(1, 4).value();
  // As sitecustomize.py does.
  const auto say = [&](const std::string& packet) {
    const UniqueFd socket = ConnectForPackets(server->name()).value();
    EXPECT_TRUE(SendPacket(socket.get(), packet).ok());
    LookUntil(*server,
              [&] { return server->is_meeting() == (packet == "meets"); });
    EXPECT_EQ(TakePacket(socket.get(), kMaxViewPacket).value(), "hello");
  };
  EXPECT_FALSE(server->is_meeting());
  say("meets");
  server->Look();
  say("has_met");
  server->Look();
  say("meets");
  server->Look();
  auto client = ConnectTo(*server);
  EXPECT_TRUE(server->is_meeting());
  client->TellCanGoOn(1, 4);
  LookUntil(*server, [&] { return server->can_go_on(); });
  EXPECT_FALSE(server->is_meeting());
  client.reset();
  LookUntil(*server, [&] { return !server->can_go_on(); });
  EXPECT_FALSE(server->is_meeting());
}

TEST(ViewsTest, ACommandHearsOfViews) {
  const auto server = ViewServer::Listen(1, 4).value();
  const auto client = ConnectTo(*server);
  std::atomic<int> calls = 0;
  auto subscription = client->Subscribe([&] { ++calls; });
  server->Send({5, {0, 1, 2}, "rank 3 was killed"});
  server->Send({6, {0, 1}, "rank 2 was killed"});
  EXPECT_TRUE(client->WaitForView(0, 3, In(absl::Seconds(30))).ok());
  EXPECT_TRUE(client->WaitForView(5, 2, In(absl::Seconds(30))).ok());
  const std::vector<View> views = client->Since(0);
  ASSERT_EQ(views.size(), 2U);
  EXPECT_EQ(views[0].why, "rank 3 was killed");
  EXPECT_THAT(views[1].ranks, ElementsAre(0, 1));
  EXPECT_THAT(client->Since(6), IsEmpty());
  while (calls < 2) absl::SleepFor(absl::Milliseconds(1));
  subscription.reset();
  server->Send({7, {1}, ""});
  EXPECT_TRUE(client->WaitForView(6, -1, In(absl::Seconds(30))).ok());
  EXPECT_EQ(calls, 2);
}

TEST(ViewsTest, ACommandHearsThatNoViewComes) {
  const auto server = ViewServer::Listen(0, 2).value();
  const auto client = ConnectTo(*server);
  EXPECT_EQ(client->WaitForView(0, 1, In(absl::Milliseconds(1))).code(),
            absl::StatusCode::kDeadlineExceeded);
  client->TellLost(1, 0);
  LookUntil(*server, [&] { return !server->lost().empty(); });
  server->Refuse(1);
  EXPECT_EQ(client->WaitForView(0, 1, In(absl::Seconds(30))).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(server->lost(), IsEmpty());
  // A newer view makes it void.
  server->Send({1, {0}, ""});
  EXPECT_TRUE(client->WaitForView(0, -1, In(absl::Seconds(30))).ok());
  EXPECT_EQ(client->WaitForView(1, 1, In(absl::Milliseconds(1))).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ViewsTest, WhatBrokeInAnOlderViewIsNoLoss) {
  const auto server = ViewServer::Listen(0, 3).value();
  const auto client = ConnectTo(*server);
  server->Send({4, {0, 1}, ""});
  client->TellLost(1, 3);
  client->TellCanGoOn(0, 3);
  LookUntil(*server, [&] { return server->can_go_on(); });
  EXPECT_THAT(server->lost(), IsEmpty());
  client->TellLost(1, 4);
  LookUntil(*server, [&] { return !server->lost().empty(); });
}

TEST(ViewsTest, AWorkerThatIsGoneIsNoticed) {
  auto server = ViewServer::Listen(0, 2).value();
  const auto client = ConnectTo(*server);
  server.reset();
  EXPECT_EQ(client->WaitForView(0, 1, In(absl::Seconds(30))).code(),
            absl::StatusCode::kUnavailable);
}

TEST(ViewsTest, TheNextProcessFollowsOnceTheFirstIsGone) {
  const auto server = ViewServer::Listen(0, 2).value();
  auto client = ConnectTo(*server);
  client->TellCanGoOn(0, 2);
  LookUntil(*server, [&] { return server->can_go_on(); });
  EXPECT_EQ(
      ViewClient::Connect(server->name(), absl::Milliseconds(1), Clock::Real())
          .status()
          .code(),
      absl::StatusCode::kUnavailable);
  client.reset();
  LookUntil(*server, [&] { return !server->can_go_on(); });
  // The one that gave up comes before it in the queue.
  server->Look();
  server->Look();
  const auto next = ConnectTo(*server);
  next->TellCanGoOn(0, 2);
  LookUntil(*server, [&] { return server->can_go_on(); });
}

TEST(ViewsTest, AMessageOfAnotherRankOrNoneEndsTheConnection) {
  for (const std::string packet :
       {"can_go_on 1 2", "can_go_on 0 3", "lost 2 0", "view 1 0 x", "?"}) {
    const auto server = ViewServer::Listen(0, 2).value();
    const UniqueFd socket = ConnectForPackets(server->name()).value();
    server->Look();
    EXPECT_TRUE(SendPacket(socket.get(), packet).ok());
    server->Look();
    ASSERT_EQ(TakePacket(socket.get(), kMaxViewPacket).value(), "hello");
    EXPECT_FALSE(TakePacket(socket.get(), kMaxViewPacket).ok()) << packet;
    EXPECT_FALSE(server->can_go_on());
  }
}

TEST(ViewsTest, NobodyListens) {
  EXPECT_EQ(ViewClient::Connect("ringmaster-views/nobody", absl::Seconds(1),
                                Clock::Real())
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ringmaster
