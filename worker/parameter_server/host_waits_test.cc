// Tests which rank a host of shards says that it waits for.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/fail_point/fail_point.h"
#include "worker/parameter_server/testing/shard_world.h"

namespace ringmaster {
namespace {

constexpr int64_t kBucket = 640;
constexpr int64_t kElems = 2 * kBucket;

// Two workers, ranks 0 and 1; hosts from rank 2 on, the first of which is the
// primary of the only shard, of two buckets.
class HostWaitsTest : public testing::Test {
 protected:
  ~HostWaitsTest() override {
    FailPoint::DisarmAll();
    world_->End();
  }

  void Make(int hosts) {
    ShardDescription shard;
    shard.plan_hash = 7;
    shard.bucket_elems = {kBucket, kBucket};
    shard.stretches = {{{0, kElems}, true}};
    v1::TrainProgram program;
    program.set_steps(100);
    program.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
    program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_BSP);
    world_ = std::make_unique<ShardWorld>(
        ShardWorld::Options{.workers = 2,
                            .hosts = hosts,
                            .shards = {shard},
                            .program = std::move(program)});
  }

  void Begin(ShardPlacement placement) {
    const absl::Status begun = world_->Begin(1, 0, {placement});
    ASSERT_TRUE(begun.ok()) << begun;
  }

  // Both have described the shard; nobody has given its contents.
  void Open() {
    ASSERT_TRUE(worker(0).Open().ok());
    ASSERT_TRUE(worker(1).Open().ok());
  }

  void Load() {
    worker(0).Load(StatePart::kParameters, 0, elems_);
    ASSERT_TRUE(worker(0).Flush().ok());
  }

  TestWorker& worker(int rank) { return world_->worker(rank); }
  ShardHost& host() { return world_->host(0); }

  static void ExpectSoon(const char* what, const std::function<bool()>& is_so) {
    const MonotonicTime end = Clock::Real().Now() + absl::Seconds(20);
    while (!is_so()) {
      ASSERT_LT(Clock::Real().Now(), end) << what;
      std::this_thread::yield();
    }
  }
  void ExpectWaitingFor(int rank) {
    ExpectSoon("it waits for another",
               [&] { return host().waiting_for_rank() == rank; });
  }

  static void ExpectHanging(const char* point) {
    ExpectSoon(point, [&] { return FailPoint::HangingCount(point) == 1; });
  }

  const std::vector<float> elems_ = std::vector<float>(kElems, 1);
  std::unique_ptr<ShardWorld> world_;
};

TEST_F(HostWaitsTest, ForWhoGivesItTheShard) {
  Make(1);
  Begin({2, -1, -1});
  Open();
  ExpectWaitingFor(0);
  EXPECT_FALSE(host().takes_pushes());
  Load();
  ExpectSoon("it has it", [&] { return host().takes_pushes(); });
}

TEST_F(HostWaitsTest, ABackupForItsPrimary) {
  Make(2);
  Begin({2, 3, -1});
  Open();
  const ShardHost& backup = world_->host(1);
  ExpectSoon("it waits", [&] { return backup.waiting_for_rank() == 2; });
  EXPECT_FALSE(backup.takes_pushes());
  ExpectWaitingFor(0);
  Load();
  ExpectSoon("it has a copy", [&] { return backup.takes_pushes(); });
}

TEST_F(HostWaitsTest, ForTheSlowestWorker) {
  Make(1);
  Begin({2, -1, -1});
  Open();
  Load();
  // All are equally far: it waits for the next push, but nobody holds it up.
  ExpectWaitingFor(0);
  ExpectSoon("all is taken", [&] { return host().taken_messages() == 4; });
  EXPECT_EQ(host().WaitedFor(1), absl::ZeroDuration());
  // It shows whom it waits for before it waits: the wait may be over at once.
  int64_t step = 0;
  ExpectSoon("the wait is counted", [&] {
    ++step;
    worker(0).PushAll(step, elems_);
    EXPECT_TRUE(worker(0).Flush().ok());
    ExpectWaitingFor(1);
    worker(1).PushAll(step, elems_);
    EXPECT_TRUE(worker(1).AwaitValues(2).ok());
    EXPECT_TRUE(worker(0).AwaitValues(2).ok());
    return HasFailure() || host().WaitedFor(1) > absl::ZeroDuration();
  });
  ExpectWaitingFor(0);
  EXPECT_EQ(host().taken_messages(), 4 + 4 * step);
}

TEST_F(HostWaitsTest, ForNobodyWhileItWorks) {
  Make(1);
  FailPoint::Arm("shard_host.update", FailPoint::Action::kHang);
  Begin({2, -1, -1});
  Open();
  Load();
  worker(0).PushAll(1, elems_);
  ASSERT_TRUE(worker(0).Flush().ok());
  ExpectWaitingFor(1);
  worker(1).PushAll(1, elems_);
  ASSERT_TRUE(worker(1).Poll().ok());
  ExpectSoon("it makes an update",
             [] { return FailPoint::HangingCount("shard_host.update") == 1; });
  EXPECT_EQ(host().waiting_for_rank(), -1);
}

TEST_F(HostWaitsTest, ForItsBackupToMakeAnUpdate) {
  Make(2);
  FailPoint::Arm("shard_host.copy_update", FailPoint::Action::kHang);
  Begin({2, 3, -1});
  Open();
  Load();
  for (const int rank : {0, 1}) {
    worker(rank).PushAll(1, elems_);
    ASSERT_TRUE(worker(rank).Flush().ok());
  }
  ExpectHanging("shard_host.copy_update");
  ExpectWaitingFor(3);
  EXPECT_TRUE(host().takes_pushes());
  EXPECT_EQ(world_->host(1).waiting_for_rank(), -1) << "it works";
}

TEST_F(HostWaitsTest, AWishToLeaveEndsWithItsGeneration) {
  Make(1);
  Begin({2, -1, -1});
  Open();
  Load();
  ExpectSoon("it has the shard", [&] { return host().takes_pushes(); });
  host().RequestDrain();
  world_->End();
  const absl::Status begun = world_->Begin(2, 0, {{2, -1, 2}});
  ASSERT_TRUE(begun.ok()) << begun;
  Open();
  for (const int rank : {0, 1}) worker(rank).PushAll(1, elems_);
  ASSERT_TRUE(worker(1).Flush().ok());
  ASSERT_TRUE(worker(0).AwaitValues(2).ok());
  EXPECT_FALSE(worker(0).received().back().wants_drain);
}

}  // namespace
}  // namespace ringmaster
