#include "common/transport/connect_peers.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/frame.h"
#include "common/transport/testing/test_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Channels = absl::StatusOr<std::vector<std::unique_ptr<Channel>>>;

class ConnectPeersTest : public ::testing::Test {
 protected:
  static ConnectPeersConfig ConfigOf(int rank) {
    ConnectPeersConfig config;
    config.job_id = "job-1";
    config.generation = 2;
    config.rank = rank;
    config.secret = "a secret of at least sixteen bytes";
    config.clock = &Clock::Real();
    config.deadline = config.clock->Now() + absl::Seconds(20);
    return config;
  }
  [[nodiscard]] std::string AddressOf(const Listener& listener) const {
    return listener.address().ToString();
  }

  // Connects ranks 0 and 1 with each other.
  void ConnectBoth(const std::vector<PeerConnection>& of_first,
                   const std::vector<PeerConnection>& of_second) {
    std::thread other([&] {
      second_ = ConnectPeers(second_listener_, second_config_, of_second,
                             /*cancel=*/nullptr);
    });
    first_ = ConnectPeers(first_listener_, first_config_, of_first,
                          /*cancel=*/nullptr);
    other.join();
    ASSERT_TRUE(first_.ok()) << first_.status();
    ASSERT_TRUE(second_.ok()) << second_.status();
  }

  // Expects that a frame sent into `from` comes out of `to`.
  static void ExpectPair(Channel& from, Channel& to, uint64_t sequence) {
    const std::vector<std::byte> sent = Pattern(1000, sequence);
    std::vector<std::byte> got(sent.size());
    EXPECT_TRUE(SendAll(from, Outgoing(sequence, sent)).ok());
    const absl::Status status = ReceiveAll(to, Incoming(sequence, got));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(got, sent);
  }

  Listener first_listener_ = *Listener::Listen("127.0.0.1:0");
  Listener second_listener_ = *Listener::Listen("127.0.0.1:0");
  ConnectPeersConfig first_config_ = ConfigOf(0);
  ConnectPeersConfig second_config_ = ConfigOf(1);
  Channels first_;
  Channels second_;
};

TEST_F(ConnectPeersTest, TwoRanksHaveAChannelForEachRoleAndDirection) {
  for (const Transport best :
       {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory}) {
    first_config_.best_transport = best;
    second_config_.best_transport = best;
    const std::string to_first = AddressOf(first_listener_);
    const std::string to_second = AddressOf(second_listener_);
    ConnectBoth({{1, LinkRole::kParameterServer, to_second},
                 {1, LinkRole::kParameterServer},
                 {1, LinkRole::kReplica, to_second},
                 {1, LinkRole::kCollective}},
                {{0, LinkRole::kCollective, to_first},
                 {0, LinkRole::kParameterServer, to_first},
                 {0, LinkRole::kReplica},
                 {0, LinkRole::kParameterServer}});
    const std::pair<size_t, size_t> pairs[] = {{0, 3}, {1, 1}, {2, 2}, {3, 0}};
    uint64_t sequence = 0;
    for (const auto& [first, second] : pairs) {
      EXPECT_EQ((*first_)[first]->transport(), best);
      ExpectPair(*(*first_)[first], *(*second_)[second], ++sequence);
      ExpectPair(*(*second_)[second], *(*first_)[first], ++sequence);
    }
  }
}

TEST_F(ConnectPeersTest, FramesAreCheckedAndEncryptedOverTcpOnly) {
  for (const auto& [best, integrity] :
       std::vector<std::pair<Transport, FrameIntegrity>>{
           {Transport::kTcp, FrameIntegrity::kCrc32c},
           {Transport::kUnix, FrameIntegrity::kCrc32c},
           {Transport::kSharedMemory, FrameIntegrity::kCrc32c},
           {Transport::kTcp, FrameIntegrity::kAes256Gcm},
           {Transport::kUnix, FrameIntegrity::kAes256Gcm},
           {Transport::kSharedMemory, FrameIntegrity::kAes256Gcm}}) {
    first_config_.integrity = integrity;
    second_config_.integrity = integrity;
    first_config_.best_transport = best;
    second_config_.best_transport = best;
    ConnectBoth({{1, LinkRole::kCollective}},
                {{0, LinkRole::kCollective, AddressOf(first_listener_)}});
    const FrameIntegrity wanted =
        best == Transport::kTcp ? integrity : FrameIntegrity::kNone;
    EXPECT_EQ(first_->front()->integrity(), wanted) << TransportName(best);
    EXPECT_EQ(second_->front()->integrity(), wanted) << TransportName(best);
    ExpectPair(*first_->front(), *second_->front(), 1);
    ExpectPair(*second_->front(), *first_->front(), 2);
  }
}

TEST_F(ConnectPeersTest, SeveralConnectionsAreOneChannel) {
  for (const FrameIntegrity integrity :
       {FrameIntegrity::kCrc32c, FrameIntegrity::kAes256Gcm}) {
    first_config_.integrity = second_config_.integrity = integrity;
    first_config_.best_transport = Transport::kTcp;
    second_config_.best_transport = Transport::kTcp;
    ConnectBoth({{1, LinkRole::kCollective},
                 {.rank = 1, .role = LinkRole::kParameterServer, .stripes = 3}},
                {{0, LinkRole::kCollective, AddressOf(first_listener_)},
                 {.rank = 0,
                  .role = LinkRole::kParameterServer,
                  .address = AddressOf(first_listener_),
                  .stripes = 3}});
    for (uint64_t sequence = 1; sequence <= 7; ++sequence) {
      ExpectPair(*(*first_)[1], *(*second_)[1], sequence);
      ExpectPair(*(*second_)[0], *(*first_)[0], sequence);
    }
  }
}

TEST_F(ConnectPeersTest, ChannelsOfOneRoleAreToldApartByTheirNumbers) {
  const auto numbered = [](int rank, int number, const std::string& address) {
    return PeerConnection{.rank = rank,
                          .role = LinkRole::kParameterServer,
                          .address = address,
                          .first_stripe = number};
  };
  for (const Transport best : {Transport::kTcp, Transport::kSharedMemory}) {
    first_config_.best_transport = best;
    second_config_.best_transport = best;
    const std::string address = AddressOf(first_listener_);
    ConnectBoth({numbered(1, 0, ""), numbered(1, 1, ""), numbered(1, 15, "")},
                {numbered(0, 15, address), numbered(0, 0, address),
                 numbered(0, 1, address)});
    const std::pair<size_t, size_t> pairs[] = {{0, 1}, {1, 2}, {2, 0}};
    uint64_t sequence = 0;
    for (const auto& [first, second] : pairs) {
      EXPECT_EQ((*first_)[first]->transport(), best);
      ExpectPair(*(*first_)[first], *(*second_)[second], ++sequence);
      ExpectPair(*(*second_)[second], *(*first_)[first], ++sequence);
    }
  }
  const PeerConnection beyond = numbered(1, 16, "");
  const absl::Status status =
      ConnectPeers(first_listener_, first_config_, std::span(&beyond, 1),
                   /*cancel=*/nullptr)
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST_F(ConnectPeersTest, EachChannelHasAnArenaOfItsOwn) {
  absl::StatusOr<SharedSegment> arena = SharedSegment::Create("arena", 1 << 20);
  ASSERT_TRUE(arena.ok()) << arena.status();
  ConnectBoth({{.rank = 1, .role = LinkRole::kCollective, .arena = &*arena},
               {1, LinkRole::kReplica}},
              {{0, LinkRole::kCollective, AddressOf(first_listener_)},
               {0, LinkRole::kReplica, AddressOf(first_listener_)}});
  const std::span<const std::byte> in_arena(arena->at(), 256 << 10);
  // Only what is read in place is waited for.
  EXPECT_TRUE(SendAll(*(*first_)[0], Outgoing(1, in_arena)).ok());
  EXPECT_FALSE((*first_)[0]->sends_taken());
  EXPECT_TRUE(SendAll(*(*first_)[1], Outgoing(1, in_arena)).ok());
  EXPECT_TRUE((*first_)[1]->sends_taken());
}

TEST_F(ConnectPeersTest, RefusesANumberOfConnectionsThatCannotBe) {
  for (const int stripes : {0, 17}) {
    const PeerConnection peer = {
        .rank = 1, .role = LinkRole::kReplica, .stripes = stripes};
    const absl::Status status =
        ConnectPeers(first_listener_, first_config_, std::span(&peer, 1),
                     /*cancel=*/nullptr)
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1; 1 to 16"));
  }
}

}  // namespace
}  // namespace ringmaster
