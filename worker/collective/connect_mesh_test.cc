#include "worker/collective/connect_mesh.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

class ConnectMeshTest : public ::testing::Test {
 protected:
  ConnectMeshTest() {
    for (int rank = 0; rank < 3; ++rank)
      listeners_.push_back(*Listener::Listen("127.0.0.1:0"));
  }

  MeshConfig ConfigOf(int rank, int world_size, int64_t generation) {
    MeshConfig config;
    config.job_id = "job-1";
    config.generation = generation;
    config.rank = rank;
    config.topology = Topology::OneHost(world_size);
    for (int peer = 0; peer < world_size; ++peer) {
      config.peers.push_back(
          {peer, listeners_[static_cast<size_t>(peer)].address().ToString()});
    }
    config.secret = "a secret of at least sixteen bytes";
    config.clock = &Clock::Real();
    config.deadline = config.clock->Now() + absl::Seconds(20);
    return config;
  }

  const Listener& listener(int rank) {
    return listeners_[static_cast<size_t>(rank)];
  }

  // Makes a world of the first `world_size` listeners and runs a barrier in it.
  void ExpectBarrier(int world_size, int64_t generation) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([this, rank, world_size, generation] {
        const MeshConfig config = ConfigOf(rank, world_size, generation);
        auto communicator = ConnectMesh(listener(rank), config, nullptr);
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        EXPECT_EQ((*communicator)->rank(), rank);
        EXPECT_EQ((*communicator)->world_size(), world_size);
        const absl::Status status =
            (*communicator)->Run(Barrier(), config.deadline);
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<Listener> listeners_;
};

TEST_F(ConnectMeshTest, ListenersServeGenerationAfterGeneration) {
  ExpectBarrier(3, 1);
  ExpectBarrier(2, 2);
  ExpectBarrier(3, 5);
}

TEST_F(ConnectMeshTest, AWorldOfOneNeedsNobody) {
  const MeshConfig config = ConfigOf(0, 1, 1);
  const auto communicator = ConnectMesh(listener(0), config, nullptr);
  ASSERT_TRUE(communicator.ok());
  EXPECT_TRUE((*communicator)->Run(Barrier(), config.deadline).ok());
}

TEST_F(ConnectMeshTest, IsCancelledWhileConnecting) {
  CancelToken cancel;
  absl::Status status;
  std::thread thread([&] {
    status = ConnectMesh(listener(0), ConfigOf(0, 3, 1), &cancel).status();
  });
  cancel.Cancel("halt");
  thread.join();
  EXPECT_EQ(status, absl::AbortedError("halt"));
}

TEST_F(ConnectMeshTest, DeadlineNamesAllWhoAreMissing) {
  MeshConfig config = ConfigOf(1, 3, 4);
  config.deadline = config.clock->Now() + absl::Milliseconds(30);
  const absl::Status status =
      ConnectMesh(listener(1), config, nullptr).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("to rank 0 at 127.0.0.1:"));
  EXPECT_THAT(status.message(), HasSubstr("from rank 2"));
}

TEST_F(ConnectMeshTest, RefusesARankOutsideTheWorldAndAPeerWithoutAnAddress) {
  MeshConfig config = ConfigOf(0, 2, 1);
  config.rank = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ConnectMesh(listener(0), config, nullptr).status()));
  config.rank = 1;
  config.peers.clear();
  const absl::Status status =
      ConnectMesh(listener(1), config, nullptr).status();
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        "rank 1 was given no address of rank 0"));
}

}  // namespace
}  // namespace ringmaster
