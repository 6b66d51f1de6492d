#include "worker/bench/bench_runner.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/protocol/proto_time.h"
#include "common/transport/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using Kind = RunOutcome::Kind;

v1::JobSpec SmallJob(int iterations = 3) {
  v1::JobSpec spec;
  v1::BenchProgram& bench = *spec.mutable_bench();
  for (const int64_t size : {8, 4100, 300'000}) bench.add_sizes(size);
  bench.set_type(v1::BENCH_TYPE_FLOAT32);
  bench.set_reduction(v1::BENCH_REDUCTION_SUM);
  bench.set_iterations(iterations);
  bench.set_warmup(1);
  *bench.mutable_time_per_size() = ToProto(absl::Hours(1));
  return spec;
}

// The most that a benchmark may have: it takes seconds, and tests wait for
// milliseconds of them.
constexpr int kEndless = 100'000;

// Workers of one host, as threads.
class BenchRunnerTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  BenchRunnerTest() {
    for (int i = 0; i < kRanks; ++i) {
      listeners_.push_back(
          std::make_unique<Listener>(Listener::Listen("127.0.0.1:0").value()));
      runners_.push_back(MakeBenchRunner(Clock::Real(), *listeners_.back(),
                                         /*copy_bytes=*/1 << 20));
    }
  }
  ~BenchRunnerTest() override { FailPoint::DisarmAll(); }

  JobRunner& runner(int rank) { return *runners_[static_cast<size_t>(rank)]; }

  RankAssignment Assign(int64_t generation, int rank, int64_t resume_step = 0) {
    RankAssignment assignment;
    assignment.generation = generation;
    assignment.job_id = "bench-1";
    assignment.rank = assignment.local_rank = rank;
    assignment.world_size = assignment.local_world_size = kRanks;
    assignment.ranks_per_host = {kRanks};
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      assignment.peers.push_back(
          {peer, absl::StrCat("127.0.0.1:",
                              listeners_[static_cast<size_t>(peer)]->port())});
    }
    assignment.secret = absl::StrCat("secret of generation ", generation);
    assignment.resume_step = resume_step;
    return assignment;
  }

  // Returns all ranks' outcomes; `meanwhile` runs once they have begun to
  // measure.
  std::vector<RunOutcome> Run(
      int64_t generation, const v1::JobSpec& spec,
      const std::function<void()>& meanwhile = [] {}) {
    std::vector<RunOutcome> outcomes(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto prepared =
          runner(rank).Prepare(spec, Assign(generation, rank));
      EXPECT_TRUE(prepared.ok()) << prepared.status();
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        outcomes[static_cast<size_t>(rank)] = runner(rank).Run();
      });
    }
    if (spec.bench().iterations() == kEndless) {
      while (runner(0).progress().bench == nullptr) std::this_thread::yield();
    }
    meanwhile();
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  void ExpectMeasured(const std::vector<RunOutcome>& outcomes) {
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, Kind::kFinished) << outcome.status;
      EXPECT_EQ(outcome.applied_step, 3);
      EXPECT_EQ(outcome.complete_step, 3);
    }
    const auto figures = runner(0).progress().bench;
    ASSERT_NE(figures, nullptr);
    EXPECT_GT(figures->start.bus_limit, 0);
    ASSERT_EQ(figures->rows.size(), 3u);
    for (const AllReduceBenchRow& row : figures->rows) {
      EXPECT_EQ(row.wrong, 0);
      EXPECT_EQ(row.iterations, 3);
      EXPECT_GT(row.p50, 0);
    }
    EXPECT_EQ(runner(1).progress().bench, nullptr);
  }

  void ExpectEndedBefore(const std::vector<RunOutcome>& outcomes, Kind kind) {
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, kind) << outcome.status;
      EXPECT_EQ(outcome.applied_step, 0);
      EXPECT_EQ(outcome.complete_step, 0);
    }
    EXPECT_EQ(runner(0).progress().applied_step, 0);
  }

 private:
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<JobRunner>> runners_;
};

TEST_F(BenchRunnerTest, MeasuresEverySize) {
  ExpectMeasured(Run(1, SmallJob()));
  runner(0).Release();
  EXPECT_EQ(runner(0).progress().bench, nullptr);
}

TEST_F(BenchRunnerTest, EndsWhereAllAgreeIfOneIsToStopOrToLeave) {
  ExpectEndedBefore(
      Run(1, SmallJob(kEndless), [this] { runner(1).RequestStop(); }),
      Kind::kStopped);
  ExpectEndedBefore(
      Run(2, SmallJob(kEndless), [this] { runner(2).RequestDrain(); }),
      Kind::kDrained);
}

TEST_F(BenchRunnerTest, BeginsAnewAfterAFault) {
  const auto outcomes = Run(1, SmallJob(kEndless),
                            [this] { runner(2).Abort(1, "for the test"); });
  EXPECT_EQ(outcomes[2].kind, Kind::kInterrupted);
  EXPECT_EQ(outcomes[0].kind, Kind::kPeerFailed) << outcomes[0].status;
  EXPECT_EQ(outcomes[1].kind, Kind::kPeerFailed) << outcomes[1].status;
  EXPECT_EQ(runner(0).progress().complete_step, 0);
  ExpectMeasured(Run(2, SmallJob()));
}

TEST_F(BenchRunnerTest, FailsAfterTheLastSizeIfElementsWereWrong) {
  FailPoint::Arm("bench.reduced", FailPoint::Action::kError);
  const auto outcomes = Run(1, SmallJob());
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, Kind::kFailed);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("12 elements differ"));
  }
  // 4 all-reduces on each of 3 ranks.
  for (const AllReduceBenchRow& row : runner(0).progress().bench->rows)
    EXPECT_EQ(row.wrong, 12);
}

TEST_F(BenchRunnerTest, WhereAllIsMeasuredAnyRankCanShowIt) {
  ExpectMeasured(Run(1, SmallJob()));
  runner(2).Release();  // another process
  // Worker 1 is the first rank now, and worker 2 a newcomer.
  for (int worker = 0; worker < kRanks; ++worker) {
    ASSERT_TRUE(runner(worker)
                    .Prepare(SmallJob(), Assign(2, worker == 1 ? 0 : 1, 3))
                    .ok());
    const RunOutcome outcome = runner(worker).Run();
    EXPECT_EQ(outcome.kind, Kind::kFinished);
    EXPECT_EQ(outcome.applied_step, 3);
  }
  EXPECT_EQ(runner(0).progress().bench, nullptr);
  ASSERT_NE(runner(1).progress().bench, nullptr);
  EXPECT_EQ(runner(1).progress().bench->rows.size(), 3u);
  EXPECT_EQ(runner(2).progress().bench, nullptr);
}

TEST_F(BenchRunnerTest, RefusesToGoOnInTheMidst) {
  const auto prepared = runner(0).Prepare(SmallJob(), Assign(1, 0, 2));
  EXPECT_EQ(prepared.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BenchRunnerTest, RefusesWhatItCannotMeasure) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_bench()->add_sizes(int64_t{1} << 50);
  const auto large = runner(0).Prepare(spec, Assign(1, 0));
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("--sizes"));
  spec = SmallJob();
  spec.mutable_bench()->set_reduction(v1::BENCH_REDUCTION_AVERAGE);
  spec.mutable_bench()->set_type(v1::BENCH_TYPE_INT32);
  EXPECT_EQ(runner(0).Prepare(spec, Assign(2, 0)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringmaster
