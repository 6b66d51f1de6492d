#include "worker/parameter_server/host_lane.h"

#include <atomic>
#include <new>
#include <thread>
#include <utility>

#include "common/parameter_server/testing/channel_pair.h"
#include "common/transport/handshake.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(20); }

// A lane of rank 1, whose only worker, rank 0, is connected and silent.
class HostLaneTest : public ::testing::Test {
 protected:
  HostLaneTest() {
    generation_.assignment.job_id = "job-1";
    generation_.assignment.generation = 1;
    generation_.assignment.rank = 1;
    generation_.assignment.placements.shards = {{1, -1, -1}};
    generation_.parameters = &heap_;
  }

  // Runs a generation on a thread until it ends, and notes its end.
  std::thread Run() {
    EXPECT_TRUE(lane_.Prepare(generation_).ok());
    ChannelPair pair =
        MakeChannelPair(Transport::kLoopback, {0, nullptr}, {1, nullptr});
    worker_ = std::move(pair.first);
    ShardHostLinks links;
    links.workers.push_back({0, std::move(pair.second)});
    return std::thread([this, links = std::move(links)]() mutable {
      try {
        end_ = lane_.Run(std::move(links), cancel_).status();
      } catch (const std::bad_alloc&) {
        has_thrown_ = true;
      }
    });
  }

  // Calls as a small client would, once the lane serves.
  absl::Status Call(const HostLane::Task& task) {
    const MonotonicTime end = Soon();
    absl::Status status;
    do {
      std::this_thread::yield();
      status = lane_.Call(task, end);
    } while (absl::IsUnavailable(status) && !was_called_ &&
             Clock::Real().Now() < end);
    return status;
  }

  HeapAllocator heap_;
  HostGeneration generation_;
  CancelToken cancel_;
  std::atomic<bool> wants_drain_{false};
  HostLane lane_{0, Clock::Real(), wants_drain_};
  std::unique_ptr<Channel> worker_;
  std::atomic<bool> was_called_{false};
  absl::Status end_;
  bool has_thrown_ = false;
};

TEST_F(HostLaneTest, WhatThrowsLeavesNothingBehind) {
  std::thread thread = Run();
  const absl::Status called = Call(
      [this](HostRun&, const HostGeneration&) -> std::optional<absl::Status> {
        was_called_ = true;
        throw std::bad_alloc();
      });
  EXPECT_TRUE(absl::IsUnavailable(called)) << called;
  thread.join();
  ASSERT_TRUE(has_thrown_);
  // Others still ask, and the other lanes' failure interrupts it.
  lane_.Interrupt();
  EXPECT_FALSE(lane_.is_running());
  EXPECT_EQ(lane_.WaitedFor(0), absl::ZeroDuration());
  EXPECT_EQ(lane_.signs().waiting_for_rank.load(), -1);
  const absl::Status late = lane_.Call(
      [](HostRun&, const HostGeneration&) -> std::optional<absl::Status> {
        return absl::OkStatus();
      },
      Soon());
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
}

TEST_F(HostLaneTest, RunsAgainAfterWhatThrew) {
  const auto fail =
      [this](HostRun&, const HostGeneration&) -> std::optional<absl::Status> {
    was_called_ = true;
    throw std::bad_alloc();
  };
  std::thread thread = Run();
  EXPECT_TRUE(absl::IsUnavailable(Call(fail)));
  thread.join();
  was_called_ = false;
  thread = Run();
  EXPECT_TRUE(Call([](HostRun&, const HostGeneration&) {
                return absl::OkStatus();
              }).ok());
  lane_.Interrupt();
  thread.join();
  EXPECT_TRUE(absl::IsAborted(end_)) << end_;
}

}  // namespace
}  // namespace ringmaster
