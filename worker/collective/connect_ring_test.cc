#include "worker/collective/connect_ring.h"

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

class ConnectRingTest : public ::testing::Test {
 protected:
  ConnectRingTest() {
    for (int rank = 0; rank < 3; ++rank)
      listeners_.push_back(*Listener::Listen("127.0.0.1:0"));
  }

  RingConfig ConfigOf(int rank, int world_size, int64_t generation) {
    RingConfig config;
    config.job_id = "job-1";
    config.generation = generation;
    config.rank = rank;
    config.world_size = world_size;
    config.secret = "a secret of at least sixteen bytes";
    config.next_address =
        listeners_[(rank + 1) % world_size].address().ToString();
    config.clock = &Clock::Real();
    config.deadline = config.clock->Now() + absl::Seconds(20);
    return config;
  }

  // Makes a ring of the first `world_size` listeners and runs a barrier in it.
  void ExpectBarrier(int world_size, int64_t generation) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([this, rank, world_size, generation] {
        const RingConfig config = ConfigOf(rank, world_size, generation);
        auto communicator = ConnectRing(listeners_[rank], config, nullptr);
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

TEST_F(ConnectRingTest, ListenersServeGenerationAfterGeneration) {
  ExpectBarrier(3, 1);
  ExpectBarrier(2, 2);
  ExpectBarrier(3, 5);
}

TEST_F(ConnectRingTest, AWorldOfOneNeedsNobody) {
  RingConfig config = ConfigOf(0, 1, 1);
  const auto communicator = ConnectRing(listeners_[0], config, nullptr);
  ASSERT_TRUE(communicator.ok());
  EXPECT_TRUE((*communicator)->Run(Barrier(), config.deadline).ok());
}

TEST_F(ConnectRingTest, IsCancelledWhileConnecting) {
  CancelToken cancel;
  absl::Status status;
  std::thread thread([&] {
    status = ConnectRing(listeners_[0], ConfigOf(0, 3, 1), &cancel).status();
  });
  cancel.Cancel("halt");
  thread.join();
  EXPECT_EQ(status, absl::AbortedError("halt"));
}

TEST_F(ConnectRingTest, DeadlineNamesBothNeighbours) {
  RingConfig config = ConfigOf(0, 3, 4);
  config.deadline = config.clock->Now() + absl::Milliseconds(30);
  const absl::Status status =
      ConnectRing(listeners_[0], config, nullptr).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("to rank 1 at 127.0.0.1:"));
  EXPECT_THAT(status.message(), HasSubstr("from rank 2"));
}

TEST_F(ConnectRingTest, RefusesARankOutsideTheWorld) {
  RingConfig config = ConfigOf(0, 2, 1);
  config.rank = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ConnectRing(listeners_[0], config, nullptr).status()));
  config.rank = 0;
  config.world_size = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ConnectRing(listeners_[0], config, nullptr).status()));
}

}  // namespace
}  // namespace ringmaster
