#include "worker/parameter_server/shard_host.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/optimizer/optimizer.h"
#include "common/plan/counter_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameter_server/testing/shard_world.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kRate = 0.5;

// `shards` of three buckets each.
std::vector<ShardDescription> Shards(int shards, int64_t bucket = 6400) {
  std::vector<ShardDescription> all;
  for (int shard = 0; shard < shards; ++shard) {
    ShardDescription description;
    description.shard = shard;
    description.first_bucket = 3 * shard;
    description.first_elem = shard * (2 * bucket + 192);
    description.plan_hash = 77;
    description.bucket_elems = {bucket, 64, bucket + 128};
    description.stretches = {{{0, 2 * bucket + 192}, true}};
    all.push_back(description);
  }
  return all;
}

int64_t ElemsOf(const std::vector<ShardDescription>& shards) {
  int64_t sum = 0;
  for (const ShardDescription& shard : shards) sum += shard.num_elems();
  return sum;
}

// Plain SGD, so that results are easy to predict.
v1::TrainProgram Sgd() {
  v1::TrainProgram program;
  program.set_steps(100);
  program.mutable_optimizer()->mutable_sgd()->set_learning_rate(kRate);
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_BSP);
  return program;
}

v1::TrainProgram Adamw() {
  v1::TrainProgram program = Sgd();
  v1::AdamwSpec& adamw = *program.mutable_optimizer()->mutable_adamw();
  adamw.set_learning_rate(0.01);
  adamw.set_beta1(0.9);
  adamw.set_beta2(0.99);
  adamw.set_epsilon(1e-8);
  adamw.set_weight_decay(0.01);
  return program;
}

v1::TrainProgram WithLanes(v1::TrainProgram program, int lanes) {
  program.mutable_collective()->set_connections(lanes);
  return program;
}

std::vector<float> Noise(int64_t count, uint64_t key) {
  std::vector<float> elems(static_cast<size_t>(count));
  for (size_t i = 0; i < elems.size(); ++i)
    elems[i] = static_cast<float>(UnitInterval(CounterRandom(key, i)) - 0.5);
  return elems;
}

std::vector<float> GradientOf(int64_t count, int rank, int64_t step) {
  return Noise(count, static_cast<uint64_t>(1000 * step + rank + 1));
}

class ShardHostTest : public ::testing::Test {
 protected:
  void Make(int workers, int hosts, int shards, v1::TrainProgram program,
            Transport transport = Transport::kLoopback) {
    workers_ = workers;
    shards_ = Shards(shards);
    elems_ = ElemsOf(shards_);
    initial_ = Noise(elems_, 1);
    world_ = std::make_unique<ShardWorld>(ShardWorld::Options{
        workers, hosts, shards_, std::move(program), transport});
  }
  // Shard i is at host i mod `hosts`; rank 0 gives its contents.
  std::vector<ShardPlacement> Placements(int hosts) const {
    std::vector<ShardPlacement> placements;
    for (size_t i = 0; i < shards_.size(); ++i)
      placements.push_back({workers_ + static_cast<int>(i) % hosts, -1, -1});
    return placements;
  }
  // Begins a generation in which rank 0 gives all shards and all workers pull.
  void Start(const std::vector<ShardPlacement>& placements, int moments = 0) {
    const absl::Status begun = world_->Begin(1, 0, placements);
    ASSERT_TRUE(begun.ok()) << begun;
    OnWorkers([&](int rank, TestWorker& worker) {
      RunOk(worker.Open());
      if (rank == 0) {
        worker.Load(StatePart::kParameters, 0, initial_);
        const std::vector<float> zeroes(initial_.size());
        if (moments >= 1) worker.Load(StatePart::kFirstMoment, 0, zeroes);
        if (moments >= 2) worker.Load(StatePart::kSecondMoment, 0, zeroes);
      }
      ExpectPulled(worker, StatePart::kParameters, 0, initial_);
    });
  }
  // Runs `act` for all workers, each on a thread.
  void OnWorkers(const std::function<void(int, TestWorker&)>& act) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < workers_; ++rank) {
      threads.emplace_back([&, rank] { act(rank, world_->worker(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static void RunOk(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
  }
  static void ExpectPulled(TestWorker& worker, StatePart part, int64_t step,
                           const std::vector<float>& expected) {
    const auto pulled = worker.Pull(part, step);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(*pulled, expected);
  }
  // One step of all workers.
  void Step(int64_t step) {
    OnWorkers([&](int rank, TestWorker& worker) {
      worker.PushAll(step, GradientOf(elems_, rank, step));
      RunOk(worker.AwaitValues(worker.buckets()));
    });
  }
  void FinishAll(DoneKind how = DoneKind::kFinished) {
    OnWorkers([&](int, TestWorker& worker) { RunOk(worker.Finish(how)); });
    world_->Join();
  }
  // Pushes until the host has refused what `misbehave` sent; returns its error.
  absl::Status Refusal(const std::function<void(TestWorker&)>& misbehave) {
    misbehave(world_->worker(workers_ - 1));
    absl::Status status;
    while (status.ok()) status = world_->worker(workers_ - 1).Poll();
    world_->Join();
    EXPECT_EQ(world_->host(0).blamed_rank(), workers_ - 1);
    return world_->end(0).status();
  }

  int workers_ = 0;
  int64_t elems_ = 0;
  std::vector<ShardDescription> shards_;
  std::vector<float> initial_;
  std::unique_ptr<ShardWorld> world_;
};

class ShardHostTransportTest : public ShardHostTest,
                               public ::testing::WithParamInterface<Transport> {
};

TEST_P(ShardHostTransportTest, AStepIsOneUpdateWithTheSumOfAllGradients) {
  for (const int workers : {1, 2, 3}) {
    for (const auto& [hosts, lanes] :
         {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}}) {
      Make(workers, hosts, 2 * lanes, WithLanes(Sgd(), lanes), GetParam());
      Start(Placements(hosts));
      std::vector<float> expected = initial_;
      for (int64_t step = 1; step <= 4; ++step) {
        Step(step);
        for (int rank = 0; rank < workers; ++rank) {
          const std::vector<float> gradient = GradientOf(elems_, rank, step);
          for (size_t i = 0; i < expected.size(); ++i)
            expected[i] -= static_cast<float>(kRate) * gradient[i];
        }
        for (int rank = 0; rank < workers; ++rank) {
          const std::vector<float>& got = world_->worker(rank).parameters();
          for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(got[i], expected[i], 1e-5) << rank << " " << i;
          EXPECT_EQ(got, world_->worker(0).parameters());
        }
      }
      FinishAll();
      for (int host = 0; host < hosts; ++host) {
        ASSERT_TRUE(world_->end(host).ok()) << world_->end(host).status();
        EXPECT_EQ(*world_->end(host), DoneKind::kFinished);
        EXPECT_EQ(world_->host(host).complete_step(), 4);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ShardHostTransportTest,
                         ::testing::Values(Transport::kLoopback,
                                           Transport::kTcp,
                                           Transport::kSharedMemory),
                         [](const auto& test) {
                           return TransportName(test.param);
                         });

TEST_F(ShardHostTest, DeterministicSumsAreInTheOrderOfRanks) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_deterministic(true);
  Make(3, 1, 1, program);
  Start(Placements(1));
  Step(1);
  std::vector<float> sum = GradientOf(elems_, 0, 1);
  for (const int rank : {1, 2}) {
    const std::vector<float> gradient = GradientOf(elems_, rank, 1);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  std::vector<float> expected = initial_;
  ApplyOptimizer<float>(
      {.kind = "sgd", .learning_rate = kRate, .weight_decay = 0},
      {.learning_rate = kRate}, {absl::MakeSpan(expected), sum});
  EXPECT_EQ(world_->worker(0).parameters(), expected);
}

TEST_F(ShardHostTest, ANarrowWireIsOfPushesOnly) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  const std::vector<float> gradient(static_cast<size_t>(elems_), 0.25f);
  world_->worker(0).Forget();
  world_->worker(0).PushAll(1, gradient, DType::kBFloat16);
  RunOk(world_->worker(0).AwaitValues(3));
  for (const ShardMessage& values : world_->worker(0).received())
    EXPECT_EQ(values.wire, DType::kFloat32);
  for (size_t i = 0; i < initial_.size(); ++i)
    ASSERT_EQ(world_->worker(0).parameters()[i], initial_[i] - 0.125f);
}

TEST_F(ShardHostTest, ValuesTellTheNormAndWhoseGradientWasNotFinite) {
  Make(3, 1, 1, Sgd());
  Start(Placements(1));
  OnWorkers([&](int rank, TestWorker& worker) {
    worker.Forget();
    std::vector<float> gradient(static_cast<size_t>(elems_), 1.0f);
    if (rank == 1) {
      gradient[6400] = std::numeric_limits<float>::quiet_NaN();  // bucket 1
    }
    worker.PushAll(1, gradient);
    RunOk(worker.AwaitValues(3));
  });
  for (const ShardMessage& values : world_->worker(2).received()) {
    const int64_t count =
        shards_[0].bucket_elems[static_cast<size_t>(values.bucket)];
    if (values.bucket == 1) {
      EXPECT_FALSE(std::isfinite(values.value));
      EXPECT_THAT(values.rank, ::testing::AnyOf(1, -1));
    } else {
      EXPECT_EQ(values.value, 9.0 * static_cast<double>(count));
      EXPECT_EQ(values.rank, -1);
    }
  }
  // That bucket is left out, the others are not.
  EXPECT_EQ(world_->worker(0).parameters()[6400], initial_[6400]);
  EXPECT_EQ(world_->worker(0).parameters()[0], initial_[0] - 1.5f);
}

TEST_F(ShardHostTest, AWorkerThatDiesInMidPushLeavesNothingHalfApplied) {
  Make(2, 1, 1, Sgd());
  Start(Placements(1));
  Step(1);
  const std::vector<float> after = world_->worker(0).parameters();
  // Bucket 0 is updated, bucket 1 has one push, and bucket 2 has none.
  for (const int rank : {0, 1}) {
    world_->worker(rank).Push(0, 2, GradientOf(elems_, rank, 2));
    RunOk(world_->worker(rank).Flush());
  }
  for (const int rank : {0, 1}) RunOk(world_->worker(rank).AwaitValues(1));
  world_->worker(0).Push(1, 2, GradientOf(elems_, 0, 2));
  RunOk(world_->worker(0).Flush());
  world_->KillWorker(1);
  world_->Join();
  EXPECT_TRUE(absl::IsUnavailable(world_->end(0).status()))
      << world_->end(0).status();
  EXPECT_THAT(std::string(world_->end(0).status().message()),
              HasSubstr("with rank 1"));
  EXPECT_EQ(world_->host(0).blamed_rank(), 1);
  EXPECT_THAT(world_->host(0).held_shards(), ElementsAre(HeldShard{0, 1}));

  RunOk(world_->Begin(2, 1, {{2, -1, 2}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 1, after);
  });
  Step(2);
  FinishAll();
  EXPECT_EQ(world_->host(0).complete_step(), 2);
}

TEST_F(ShardHostTest, ResumesOneStepBack) {
  Make(2, 2, 2, Adamw());
  Start(Placements(2), /*moments=*/2);
  Step(1);
  const std::vector<float> after = world_->worker(0).parameters();
  const auto moment = world_->worker(0).Pull(StatePart::kSecondMoment, 1);
  ASSERT_TRUE(moment.ok()) << moment.status();
  Step(2);
  const std::vector<float> again = world_->worker(0).parameters();
  RunOk(world_->Begin(2, 1, {{2, -1, 2}, {3, -1, 3}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 1, after);
    ExpectPulled(worker, StatePart::kSecondMoment, 1, *moment);
  });
  Step(2);
  // Two workers' sums have the same bits in either order.
  EXPECT_EQ(world_->worker(1).parameters(), again);
}

TEST_F(ShardHostTest, BeginsAfterTheCheckpointThatRank0Gives) {
  Make(1, 1, 2, WithLanes(Sgd(), 2));
  RunOk(world_->Begin(1, 0, Placements(1)));
  EXPECT_EQ(world_->host(0).begin_step(), 0);
  TestWorker& worker = world_->worker(0);
  RunOk(worker.Open());
  worker.Load(StatePart::kParameters, 40, initial_);
  ExpectPulled(worker, StatePart::kParameters, 40, initial_);
  EXPECT_EQ(world_->host(0).begin_step(), 40);
  Step(41);
  FinishAll();
  EXPECT_EQ(world_->host(0).complete_step(), 41);
  EXPECT_EQ(world_->host(0).begin_step(), 40);
  RunOk(world_->Begin(2, 41, {{1, -1, 1}, {1, -1, 1}}));
  EXPECT_EQ(world_->host(0).begin_step(), 41);
}

class ShardReplicaTest : public ShardHostTest,
                         public ::testing::WithParamInterface<v1::Consistency> {
};

TEST_P(ShardReplicaTest, ABackupTakesOverWithTheSameBits) {
  v1::TrainProgram program = Adamw();
  program.mutable_parameter_server()->set_consistency(GetParam());
  program.mutable_parameter_server()->set_staleness(1);
  program.mutable_parameter_server()->set_replicas(1);
  // Each shard has a lane of its own: one gives copies, the other gets them.
  Make(2, 2, 2, WithLanes(program, 2));
  Start({{2, 3, -1}, {3, 2, -1}}, /*moments=*/2);
  for (int64_t step = 1; step <= 3; ++step) Step(step);
  std::vector<std::vector<float>> parts;
  for (const StatePart part : {StatePart::kParameters, StatePart::kFirstMoment,
                               StatePart::kSecondMoment}) {
    const auto pulled = world_->worker(0).Pull(part, 3);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    parts.push_back(*pulled);
  }
  FinishAll();
  for (const int host : {0, 1}) {
    EXPECT_TRUE(world_->end(host).ok()) << world_->end(host).status();
    EXPECT_THAT(world_->host(host).held_shards(),
                ElementsAre(HeldShard{0, 3}, HeldShard{1, 3}));
  }
  // Host 2 is lost; another one becomes the backup of both.
  world_->ReplaceHost(0);
  RunOk(world_->Begin(2, 3, {{3, 2, 3}, {3, 2, 3}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 3, parts[0]);
    ExpectPulled(worker, StatePart::kFirstMoment, 3, parts[1]);
    ExpectPulled(worker, StatePart::kSecondMoment, 3, parts[2]);
  });
  Step(4);
  const auto fourth = world_->worker(0).Pull(StatePart::kParameters, 4);
  ASSERT_TRUE(fourth.ok()) << fourth.status();
  FinishAll();
  // The new copy is complete: it is the source now, for the primary too.
  RunOk(world_->Begin(3, 4, {{3, 2, 2}, {2, -1, 2}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 4, *fourth);
  });
  Step(5);
  FinishAll();
  EXPECT_TRUE(world_->end(0).ok()) << world_->end(0).status();
  EXPECT_TRUE(world_->end(1).ok()) << world_->end(1).status();
}

// Shard 0 moves to a third host, which takes it from the first.
class ShardSpareTest : public ShardReplicaTest {
 protected:
  void SetUp() override {
    v1::TrainProgram program = Sgd();
    program.mutable_parameter_server()->set_consistency(GetParam());
    program.mutable_parameter_server()->set_staleness(1);
    program.mutable_parameter_server()->set_replicas(1);
    Make(2, 3, 2, program);
    Start({{2, 3, -1}, {3, 4, -1}});
    for (int64_t step = 1; step <= 3; ++step) Step(step);
    const auto pulled = world_->worker(0).Pull(StatePart::kParameters, 3);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    after_ = *pulled;
    FinishAll();
  }
  void TearDown() override { FailPoint::DisarmAll(); }
  // The second host is no holder of shard 0 any more.
  void Move() { RunOk(world_->Begin(2, 3, {{4, 2, 2}, {3, 4, 3}})); }

  std::vector<float> after_;
};

TEST_P(ShardSpareTest, AnOldCopyIsGoodUntilTheNewHolderHasItsOwn) {
  Move();
  EXPECT_THAT(world_->host(1).held_shards(),
              ElementsAre(HeldShard{0, 3}, HeldShard{1, 3}));
  // The source is lost, perhaps before the new holder has loaded.
  world_->End();
  world_->ReplaceHost(0);
  world_->ReplaceHost(2);
  RunOk(world_->Begin(3, 3, {{2, 3, 3}, {3, 2, 3}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 3, after_);
  });
  Step(4);
  FinishAll();
  EXPECT_THAT(world_->host(1).held_shards(),
              ElementsAre(HeldShard{0, 4}, HeldShard{1, 4}));
}

TEST_P(ShardSpareTest, AnOldCopyIsNotTakenForANewerOne) {
  Move();
  OnWorkers([&](int, TestWorker& worker) { RunOk(worker.Open()); });
  // After one step it is still there, and the generation ends.
  Step(4);
  FinishAll();
  EXPECT_THAT(world_->host(1).held_shards(),
              ElementsAre(HeldShard{0, 3}, HeldShard{1, 4}));
  world_->End();
  RunOk(world_->Begin(3, 4, {{4, 2, 4}, {3, 4, 3}}));
  EXPECT_THAT(world_->host(1).held_shards(), ElementsAre(HeldShard{1, 4}));
}

TEST_P(ShardSpareTest, AnOldCopyIsDroppedOnceAllHoldersHaveMadeAStep) {
  Move();
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 3, after_);
  });
  // Another host's backup may still be loading while this one makes the step.
  Step(4);
  FinishAll();
  EXPECT_THAT(world_->host(1).held_shards(),
              ElementsAre(HeldShard{0, 3}, HeldShard{1, 4}));
  Move();
  OnWorkers([&](int, TestWorker& worker) { RunOk(worker.Open()); });
  Step(4);
  Step(5);
  FinishAll();
  EXPECT_THAT(world_->host(1).held_shards(), ElementsAre(HeldShard{1, 5}));
}

TEST_P(ShardSpareTest, ABackupsOldCopyIsGoodUntilTheNewOneHasCome) {
  // Updates in place are copied anew; others are not, and cannot be cut short.
  FailPoint::Arm("shard_host.load", FailPoint::Action::kError);
  RunOk(world_->Begin(2, 3, {{2, 3, 2}, {3, 4, 3}}));
  if (GetParam() != v1::CONSISTENCY_BSP) {
    world_->Join();
    EXPECT_FALSE(world_->end(1).ok());
  }
  EXPECT_THAT(world_->host(1).held_shards(),
              ElementsAre(HeldShard{0, 3}, HeldShard{1, 3}));
  world_->End();
  FailPoint::DisarmAll();
  world_->ReplaceHost(0);
  RunOk(world_->Begin(3, 3, {{3, 2, 3}, {3, 2, 3}}));
  OnWorkers([&](int, TestWorker& worker) {
    RunOk(worker.Open());
    ExpectPulled(worker, StatePart::kParameters, 3, after_);
  });
}

INSTANTIATE_TEST_SUITE_P(Consistencies, ShardSpareTest,
                         ::testing::Values(v1::CONSISTENCY_BSP,
                                           v1::CONSISTENCY_SSP,
                                           v1::CONSISTENCY_ASYNC));

INSTANTIATE_TEST_SUITE_P(Consistencies, ShardReplicaTest,
                         ::testing::Values(v1::CONSISTENCY_BSP,
                                           v1::CONSISTENCY_SSP,
                                           v1::CONSISTENCY_ASYNC));

TEST_F(ShardHostTest, AThirdHostGivesACopy) {
  Make(1, 3, 1, Sgd());
  Start({{1, -1, -1}});
  Step(1);
  const std::vector<float> after = world_->worker(0).parameters();
  FinishAll();
  RunOk(world_->Begin(2, 1, {{2, 3, 1}}));
  RunOk(world_->worker(0).Open());
  ExpectPulled(world_->worker(0), StatePart::kParameters, 1, after);
  Step(2);
  FinishAll();
  for (const int host : {0, 1, 2})
    EXPECT_TRUE(world_->end(host).ok()) << world_->end(host).status();
  EXPECT_THAT(world_->host(1).held_shards(), ElementsAre(HeldShard{0, 2}));
  EXPECT_THAT(world_->host(2).held_shards(), ElementsAre(HeldShard{0, 2}));
}

class ShardClippingTest : public ShardHostTest {
 protected:
  void SetUp() override {
    v1::TrainProgram program = Sgd();
    program.mutable_optimizer()->mutable_sgd()->set_clip_norm(1);
    Make(2, 1, 1, program);
    Start(Placements(1));
    OnWorkers([&](int, TestWorker& worker) {
      worker.Forget();
      worker.PushAll(1, std::vector<float>(static_cast<size_t>(elems_), 0.5f));
      RunOk(worker.AwaitNorms(1));
    });
  }
};

TEST_F(ShardClippingTest, AnUpdateWaitsForTheFactorAndUsesIt) {
  const ShardMessage norm = world_->worker(0).received().front();
  EXPECT_EQ(norm.value, static_cast<double>(elems_));
  EXPECT_EQ(norm.step, 1);
  OnWorkers([&](int, TestWorker& worker) {
    worker.Scale(0, 1, 0.25);
    RunOk(worker.AwaitValues(3));
  });
  EXPECT_EQ(world_->worker(1).parameters()[5],
            initial_[5] - static_cast<float>(kRate) * 0.25f);
}

TEST_F(ShardClippingTest, WhatTheForwardPassNeedsFirstIsAnsweredFirst) {
  OnWorkers([&](int, TestWorker& worker) {
    worker.Forget();
    worker.Scale(0, 1, 0.25);
    RunOk(worker.AwaitValues(3));
  });
  std::vector<int> order;
  for (const ShardMessage& values : world_->worker(0).received())
    order.push_back(values.bucket);
  EXPECT_THAT(order, ElementsAre(2, 1, 0));
}

TEST_F(ShardClippingTest, AFactorThatIsNotFiniteLeavesTheUpdateOut) {
  OnWorkers([&](int, TestWorker& worker) {
    worker.Scale(0, 1, std::numeric_limits<double>::quiet_NaN());
    RunOk(worker.AwaitValues(3));
  });
  EXPECT_EQ(world_->worker(1).parameters(), initial_);
}

TEST_F(ShardClippingTest, FactorsThatDifferAreRefused) {
  world_->worker(0).Scale(0, 1, 0.25);
  RunOk(world_->worker(0).AwaitValues(3));
  const absl::Status status =
      Refusal([](TestWorker& worker) { worker.Scale(0, 1, 0.5); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("others said 0.25"));
}

TEST_F(ShardHostTest, TheLaneThatFailsFirstEndsTheOthers) {
  Make(2, 1, 2, WithLanes(Sgd(), 2));
  Start(Placements(1));
  Step(1);
  // The push is for the second lane; the first one waits for pushes.
  const absl::Status status = Refusal(
      [&](TestWorker& worker) { worker.Push(3, 5, GradientOf(elems_, 1, 5)); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("where step 2 is due"));
  EXPECT_EQ(world_->host(0).blamed_rank(), 1);
  EXPECT_THAT(world_->host(0).held_shards(),
              ElementsAre(HeldShard{0, 1}, HeldShard{1, 1}));
  // The shards that they hold are still good.
  RunOk(world_->Begin(2, 1, {{2, -1, 2}, {2, -1, 2}}));
  OnWorkers([&](int, TestWorker& worker) { RunOk(worker.Open()); });
  EXPECT_EQ(world_->host(0).blamed_rank(), -1);
  Step(2);
  EXPECT_EQ(world_->host(0).staleness().size(), 0u);
  FinishAll();
  EXPECT_EQ(world_->host(0).complete_step(), 2);
}

TEST_F(ShardHostTest, ALaneWithoutShardsHoldsNothingUp) {
  Make(2, 1, 1, WithLanes(Sgd(), 3));
  Start(Placements(1));
  Step(1);
  FinishAll();
  EXPECT_TRUE(world_->end(0).ok()) << world_->end(0).status();
  EXPECT_EQ(world_->host(0).complete_step(), 1);
}

TEST_F(ShardHostTest, CancellationEndsAllLanes) {
  Make(1, 1, 4, WithLanes(Sgd(), 4));
  Start(Placements(1));
  world_->End();
  EXPECT_TRUE(absl::IsAborted(world_->end(0).status()));
  EXPECT_EQ(world_->host(0).blamed_rank(), -1);
}

TEST_F(ShardHostTest, RefusesAShardOfAnotherLane) {
  Make(1, 1, 2, WithLanes(Sgd(), 2));
  Start(Placements(1));
  const absl::Status status = Refusal([&](TestWorker& worker) {
    ShardMessage pull;
    pull.op = ShardOp::kPull;
    pull.bucket = 3;
    pull.shard = 1;
    worker.SendRawOnLaneOf(0, pull);
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("placements differ"));
}

TEST_F(ShardHostTest, AWorkerThatIsTooFarAheadWaitsForItsAnswer) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_SSP);
  program.mutable_parameter_server()->set_staleness(1);
  Make(2, 1, 1, program);
  Start(Placements(1));
  TestWorker& fast = world_->worker(0);
  fast.Forget();
  fast.PushAll(1, GradientOf(elems_, 0, 1));
  RunOk(fast.AwaitValues(3));
  fast.PushAll(2, GradientOf(elems_, 0, 2));
  RunOk(fast.Flush());
  EXPECT_EQ(fast.received().size(), 3u);
  // The other worker's step lets it continue.
  world_->worker(1).PushAll(1, GradientOf(elems_, 1, 1));
  RunOk(world_->worker(1).AwaitValues(3));
  RunOk(fast.AwaitValues(3));
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(fast.received()[i].step, 2);
  // So does the other worker's end.
  fast.PushAll(3, GradientOf(elems_, 0, 3));
  RunOk(fast.Flush());
  RunOk(world_->worker(1).Finish());
  RunOk(fast.AwaitValues(3));
  RunOk(fast.Finish());
  world_->Join();
  EXPECT_TRUE(world_->end(0).ok()) << world_->end(0).status();
  EXPECT_EQ(world_->host(0).complete_step(), 3);
  // The fast worker's first two steps were ahead; at its third no other worker
  // was left.
  const std::vector<int64_t> staleness = world_->host(0).staleness();
  ASSERT_GE(staleness.size(), 2u);
  EXPECT_EQ(staleness[0], 6);
  EXPECT_EQ(staleness[1], 6);
  EXPECT_EQ(std::accumulate(staleness.begin(), staleness.end(), int64_t{0}),
            12);
  world_->host(0).Release();
  EXPECT_THAT(world_->host(0).staleness(), IsEmpty());
}

TEST_F(ShardHostTest, AsyncAnswersAtOnceAndCountsTheSlowest) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
  Make(2, 1, 1, program);
  Start(Placements(1));
  std::vector<float> expected = initial_;
  for (int64_t step = 1; step <= 5; ++step) {
    const std::vector<float> gradient = GradientOf(elems_, 0, step);
    world_->worker(0).PushAll(step, gradient);
    RunOk(world_->worker(0).AwaitValues(3));
    // The gradient is W times as large, and the rate 1/W.
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] -= static_cast<float>(kRate) * gradient[i];
  }
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(world_->worker(0).parameters()[i], expected[i], 1e-5);
  world_->End();
  // Three buckets of each step; a run that was cancelled has counted, too.
  const std::vector<int64_t> staleness = world_->host(0).staleness();
  ASSERT_GE(staleness.size(), 7u);
  EXPECT_THAT(std::vector(staleness.begin(), staleness.begin() + 7),
              ElementsAre(0, 3, 3, 3, 3, 3, 0));
  RunOk(world_->Begin(2, 0, {{2, -1, 2}}));
  EXPECT_THAT(world_->host(0).held_shards(), ElementsAre(HeldShard{0, 0}));
}

TEST_F(ShardHostTest, WantsOfDrainingTravelWithTheAnswers) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  Step(1);
  EXPECT_FALSE(world_->worker(0).received().back().wants_drain);
  world_->host(0).RequestDrain();
  Step(2);
  EXPECT_TRUE(world_->worker(0).received().back().wants_drain);
  FinishAll(DoneKind::kDrained);
  EXPECT_EQ(*world_->end(0), DoneKind::kDrained);
}

TEST_F(ShardHostTest, CancellationEndsARunAndBlamesNobody) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  world_->End();
  EXPECT_TRUE(absl::IsAborted(world_->end(0).status()));
  EXPECT_EQ(world_->host(0).blamed_rank(), -1);
}

TEST_F(ShardHostTest, ReleaseForgetsEverything) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  EXPECT_NE(world_->host(0).shared_parameters(), nullptr);
  world_->End();
  EXPECT_EQ(world_->host(0).held_shards().size(), 1u);
  world_->host(0).Release();
  EXPECT_TRUE(world_->host(0).held_shards().empty());
  const absl::Status status = world_->Begin(2, 0, {{1, -1, 1}});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 is to give shard 0 as of step 0"));
}

TEST_F(ShardHostTest, RefusesAStepThatCannotBeGiven) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = world_->Begin(2, 5, {{1, -1, 1}});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot be taken back to 5"));
}

TEST_F(ShardHostTest, RefusesAPushOfAWrongStepNamingTheRank) {
  Make(2, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = Refusal(
      [&](TestWorker& worker) { worker.Push(0, 3, GradientOf(elems_, 1, 3)); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 2 with rank 1 about shards, generation 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("where step 1 is due"));
}

TEST_F(ShardHostTest, RefusesAPushOfAWrongShape) {
  Make(2, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = Refusal([&](TestWorker& worker) {
    const std::vector<float> elems(10);
    ShardMessage push;
    push.op = ShardOp::kPush;
    push.bucket = 1;
    push.step = 1;
    worker.SendRaw(push,
                   {.data = reinterpret_cast<const std::byte*>(elems.data()),
                    .count = 10});
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("push of bucket 1 (shard 0, step 1, 10 elements)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("of 64 elements"));
}

TEST_F(ShardHostTest, RefusesWhatOthersDescribeOtherwise) {
  Make(2, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = Refusal([&](TestWorker& worker) {
    ShardDescription other = shards_[0];
    other.plan_hash = 78;
    const std::vector<std::byte> bytes = Encode(other);
    ShardMessage open;
    open.op = ShardOp::kOpen;
    worker.SendRaw(open, {.data = bytes.data(),
                          .count = static_cast<int64_t>(bytes.size()),
                          .dtype = DType::kUint8});
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("with rank 1"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("(plan 4e), that of rank 2 and the others 3 of"));
}

TEST_F(ShardHostTest, RefusesALoadByAnotherThanRank0) {
  Make(2, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = Refusal([&](TestWorker& worker) {
    worker.Load(StatePart::kParameters, 0, initial_);
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("load of bucket 0"));
}

TEST_F(ShardHostTest, RefusesAPushBeforeTheShardWasDescribed) {
  Make(1, 1, 1, Sgd());
  RunOk(world_->Begin(1, 0, Placements(1)));
  const absl::Status status = Refusal(
      [&](TestWorker& worker) { worker.Push(0, 1, GradientOf(elems_, 0, 1)); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has not said yet what the shard is"));
}

TEST_F(ShardHostTest, RefusesAPullOfAnotherStep) {
  Make(1, 1, 1, Sgd());
  Start(Placements(1));
  const absl::Status status = Refusal([&](TestWorker& worker) {
    ShardMessage pull;
    pull.op = ShardOp::kPull;
    pull.bucket = 0;
    pull.step = 4;
    worker.SendRaw(pull, {});
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("here as of step 0"));
}

TEST_F(ShardHostTest, RefusesProgramsThatCannotBe) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
  program.mutable_optimizer()->mutable_sgd()->set_clip_norm(1);
  const std::unique_ptr<ShardHost> host = MakeShardHost(Clock::Real());
  const ShardHostAssignment assignment = {"job", 1, 1, 1, 0, {}};
  const absl::Status status = host->Prepare(program, assignment);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("clip_norm"));
  program.clear_optimizer();
  EXPECT_TRUE(absl::IsInvalidArgument(host->Prepare(program, assignment)));
}

TEST_F(ShardHostTest, RefusesARunWithoutAllWorkers) {
  const std::unique_ptr<ShardHost> host = MakeShardHost(Clock::Real());
  RunOk(host->Prepare(Sgd(), {"job", 1, 2, 2, 0, {}}));
  const CancelToken cancel;
  absl::Status status =
      host->Run(std::vector<ShardHostLinks>(1), cancel).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 workers of 2"));
  status = host->Run({}, cancel).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 lanes of 1"));
}

// ---- What small clients see.

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(20); }

TEST_F(ShardHostTest, ASmallClientReadsOneStep) {
  // The shards are of two lanes.
  Make(/*workers=*/2, /*hosts=*/1, /*shards=*/2, WithLanes(Sgd(), 2));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      world_->host(0).Read({{0, 1}}, Soon()).status()));
  Start(Placements(1));
  Step(1);
  const absl::StatusOr<StoredShards> shards = world_->host(0).shards(Soon());
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->generation, 1);
  EXPECT_EQ(shards->step, 1);
  const int64_t half = elems_ / 2;
  EXPECT_THAT(shards->ranges,
              ElementsAre(ElemRange{0, half}, ElemRange{half, half}));
  // A bucket is ahead, and is read as of the step that all have made.
  const std::vector<float> held = world_->worker(1).parameters();
  OnWorkers([&](int rank, TestWorker& worker) {
    worker.Push(0, 2, GradientOf(elems_, rank, 2));
    RunOk(worker.AwaitValues(1));
  });
  const std::vector<ElemRange> ranges = {{half - 3, 7}, {5, 2}};
  const absl::StatusOr<StoredElements> read =
      world_->host(0).Read(ranges, Soon());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 1);
  std::vector<float> expected(held.begin() + half - 3, held.begin() + half + 4);
  expected.insert(expected.end(), held.begin() + 5, held.begin() + 7);
  EXPECT_EQ(read->elements, expected);
  const absl::Status outside =
      world_->host(0).Read({{elems_ - 1, 2}}, Soon()).status();
  EXPECT_TRUE(absl::IsOutOfRange(outside)) << outside;
  const absl::Status push =
      world_->host(0)
          .Push("job", 1, 0, std::vector<float>(6400, 1.0f), Soon())
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(push)) << push;
  world_->End();
  const absl::Status between = world_->host(0).Read({{0, 1}}, Soon()).status();
  EXPECT_TRUE(absl::IsUnavailable(between)) << between;
}

TEST_F(ShardHostTest, ASmallClientsPushIsAnUpdate) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
  Make(/*workers=*/2, /*hosts=*/2, /*shards=*/1, std::move(program));
  std::vector<ShardPlacement> placements = Placements(1);
  placements[0].backup_rank = 3;
  Start(placements);
  StoringShardHost& host = world_->host(0);
  const std::vector<float> gradient = Noise(64 + 6528, 5);
  const absl::StatusOr<int64_t> step =
      host.Push(host.shards(Soon())->job_id, 1, 6400, gradient, Soon());
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(*step, 0);
  const absl::StatusOr<StoredElements> read =
      host.Read({{6400, 64 + 6528}}, Soon());
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t i = 0; i < gradient.size(); ++i) {
    // Half of the learning rate, since there are two workers.
    ASSERT_FLOAT_EQ(
        read->elements[i],
        initial_[6400 + i] - static_cast<float>(kRate / 2) * gradient[i]);
  }
  // The workers go on as if nothing had been.
  Step(1);
  FinishAll();
}

TEST_F(ShardHostTest, APushThatDoesNotFitChangesNothing) {
  v1::TrainProgram program = Sgd();
  program.mutable_parameter_server()->set_consistency(v1::CONSISTENCY_ASYNC);
  Make(/*workers=*/1, /*hosts=*/1, /*shards=*/2,
       WithLanes(std::move(program), 2));
  Start(Placements(1));
  StoringShardHost& host = world_->host(0);
  const std::string job = host.shards(Soon())->job_id;
  const auto code = [&](const std::string& job_id, int64_t generation,
                        int64_t begin, std::vector<float> gradient) {
    return host.Push(job_id, generation, begin, std::move(gradient), Soon())
        .status()
        .code();
  };
  const std::vector<float> bucket(6400, 1.0f);
  EXPECT_EQ(code("other", 1, 0, bucket), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(job, 2, 0, bucket), absl::StatusCode::kAborted);
  EXPECT_EQ(code(job, 1, 1, bucket), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(job, 1, 0, std::vector<float>(6401, 1.0f)),
            absl::StatusCode::kOutOfRange);
  // The last bucket of one shard and the first of the next.
  EXPECT_EQ(code(job, 1, 6464, std::vector<float>(6528 + 6400, 1.0f)),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(job, 1, elems_, bucket), absl::StatusCode::kOutOfRange);
  std::vector<float> infinite = bucket;
  infinite[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code(job, 1, 0, infinite), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<StoredElements> read = host.Read({{0, elems_}}, Soon());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->elements, initial_);
  FinishAll();
}

}  // namespace
}  // namespace ringmaster
