// A generation of a job as threads of one process: what data-parallel training
// must do to be right and to overlap.
#include "worker/train/step/generation_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_mesh.h"
#include "worker/nn/testing/reference_run.h"
#include "worker/train/exchange/all_reduce_sync.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProgramConfig SmallJob(int64_t steps) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {8}},
                               {"embedding_dim", {8}},
                               {"hidden_dim", {32}},
                               {"hidden_layers", {2}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 4096};
  config.program.set_steps(steps);
  config.program.set_global_batch(
      37);  // a prime, so that no world size divides it
  config.program.set_seed(3);
  config.program.set_evaluation_samples(100);
  config.program.set_bucket_bytes(16 << 10);
  config.program.set_hash_every(1);
  return config;
}

std::vector<float> Parameters(const RankResult& result) {
  const absl::Span<float> elems = result.state->parameters().Elems<float>();
  return std::vector<float>(elems.begin(), elems.end());
}

double Distance(const std::vector<float>& parameters,
                const std::vector<double>& exact) {
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(parameters[i]) - exact[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

class WorldSizeTest : public testing::TestWithParam<int> {};

TEST_P(WorldSizeTest, RanksEndWithTheSameBits) {
  const auto results = RunRanks(SmallJob(/*steps=*/20), GetParam());
  for (const auto& result : results) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_EQ(*result->end, GenerationRun::End::kFinished);
    EXPECT_EQ(result->state->applied_step(), 20);
    EXPECT_EQ(result->state->ParametersHash(),
              results[0]->state->ParametersHash());
  }
}

// Compares with the exact run's parameters, and with one worker's distance from
// them after the same steps.
TEST_P(WorldSizeTest, StaysAsCloseToTheExactRunAsOneWorker) {
  const std::vector<int64_t> steps = {1, 10, 50};
  const ProgramConfig job = SmallJob(1);
  const auto exact =
      RunReference<double>({.model = job.model,
                            .data = job.data,
                            .optimizer = job.optimizer,
                            .global_batch = job.program.global_batch(),
                            .seed = static_cast<uint64_t>(job.program.seed())},
                           steps);
  ASSERT_TRUE(exact.ok()) << exact.status();
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto one = RunRanks(SmallJob(steps[i]), 1);
    const auto many = RunRanks(SmallJob(steps[i]), GetParam());
    ASSERT_TRUE(one[0]->end.ok()) << one[0]->end.status();
    ASSERT_TRUE(many[0]->end.ok()) << many[0]->end.status();
    const double one_distance =
        Distance(Parameters(*one[0]), (*exact)[i].parameters);
    const double many_distance =
        Distance(Parameters(*many[0]), (*exact)[i].parameters);
    EXPECT_GT(one_distance, 0) << "fp32 cannot be exact";
    EXPECT_LE(many_distance, 2 * one_distance) << "at step " << steps[i];
    RecordProperty(("distance_ratio_at_" + std::to_string(steps[i])).c_str(),
                   std::to_string(many_distance / one_distance));
  }
}

// Gradients of micro-batches add up to those of the whole part, however
// unevenly the global batch divides.
TEST_P(WorldSizeTest, MicroBatchesChangeNothingButRounding) {
  ProgramConfig job = SmallJob(/*steps=*/20);
  const auto exact =
      RunReference<double>({.model = job.model,
                            .data = job.data,
                            .optimizer = job.optimizer,
                            .global_batch = job.program.global_batch(),
                            .seed = static_cast<uint64_t>(job.program.seed())},
                           {20});
  ASSERT_TRUE(exact.ok()) << exact.status();
  const auto whole = RunRanks(job, 1);
  job.program.set_micro_batch(4);
  const auto micro = RunRanks(job, GetParam());
  for (const auto& result : micro) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_LE(Distance(Parameters(*result), exact->front().parameters),
              2 * Distance(Parameters(*whole[0]), exact->front().parameters));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorldSizeTest, testing::Values(1, 2, 3, 4, 8));

// Gradients that travel as 16 bits are rounded, alike on all ranks, and alike
// by a rank that is alone.
class WireTest : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(WireTest, RanksEndWithTheSameBitsCloseToWhereFloat32Ends) {
  const auto [world_size, wire] = GetParam();
  ProgramConfig job = SmallJob(/*steps=*/60);
  const auto whole = RunRanks(job, world_size);
  job.collective.wire = wire;
  const auto rounded = RunRanks(job, world_size);
  for (const auto& result : rounded) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_EQ(result->state->ParametersHash(),
              rounded[0]->state->ParametersHash());
    EXPECT_NEAR(result->evaluation_loss, whole[0]->evaluation_loss,
                0.02 * whole[0]->evaluation_loss);
  }
  EXPECT_NE(rounded[0]->state->ParametersHash(),
            whole[0]->state->ParametersHash());
}

INSTANTIATE_TEST_SUITE_P(RanksAndTypes, WireTest,
                         testing::Values(std::tuple(1, DType::kBFloat16),
                                         std::tuple(2, DType::kBFloat16),
                                         std::tuple(3, DType::kFloat16),
                                         std::tuple(4, DType::kBFloat16)));

// A model with targets for every token, dropout and a tied embedding, cut into
// micro-batches or not: ranks end with equal bits, close to one rank's.
class GptWorldTest : public testing::TestWithParam<std::tuple<int, int64_t>> {};

TEST_P(GptWorldTest, EndsWhereOneRankEnds) {
  const auto [world_size, micro_batch] = GetParam();
  ProgramConfig config = SmallJob(/*steps=*/20);
  config.model = {.kind = "gpt",
                  .settings = {{"vocabulary", {64}},
                               {"window", {12}},
                               {"layers", {2}},
                               {"heads", {2}},
                               {"width", {16}},
                               {"dropout", {0.1}}}};
  config.optimizer.clip_norm = 0.5;
  config.optimizer.schedule = {.kind = "cosine", .warmup_steps = 5};
  config.program.set_label_smoothing(0.1);
  config.program.set_global_batch(13);
  const auto one = RunRanks(config, 1);
  config.program.set_micro_batch(micro_batch);
  const auto many = RunRanks(config, world_size);
  const std::vector<float> want = Parameters(*one[0]);
  double norm = 0;
  for (const float parameter : want) norm += parameter * parameter;
  for (const auto& result : many) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_EQ(result->state->ParametersHash(),
              many[0]->state->ParametersHash());
    EXPECT_LE(Distance(Parameters(*result),
                       std::vector<double>(want.begin(), want.end())),
              1e-5 * std::sqrt(norm));
    EXPECT_NEAR(result->evaluation_loss, one[0]->evaluation_loss, 1e-4);
  }
}

// 13 samples over 8 ranks: parts of 2 and of 1.
INSTANTIATE_TEST_SUITE_P(RanksAndMicroBatches, GptWorldTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8),
                                          testing::Values(0, 1, 4)));

// A step's results depend on shapes alone.
// With a decay that is a power of two each tensor is, to the bit, that of a job whose
// whole rate is its layer's: the head's, those of the two hidden layers, and that of
// the embedding below them.
TEST(GenerationRunTest, LayersBelowOthersAreUpdatedLess) {
  ProgramConfig config = SmallJob(/*steps=*/1);
  config.optimizer = {.kind = "sgd", .learning_rate = 0.5, .layer_decay = 0.25};
  const auto decayed = RunRanks(config, 1);
  const std::vector<float> got = Parameters(*decayed[0]);
  config.optimizer.layer_decay = 1;
  std::vector<std::vector<float>> of_depth;
  for (int depth = 0; depth < 4; ++depth) {
    of_depth.push_back(Parameters(*RunRanks(config, 1)[0]));
    config.optimizer.learning_rate *= 0.25;
  }
  for (const PlannedTensor& tensor : decayed[0]->state->plan().tensors()) {
    const std::string& name = tensor.spec.name;
    const size_t depth = absl::StartsWith(name, "output")      ? 0
                         : absl::StartsWith(name, "hidden.1.") ? 1
                         : absl::StartsWith(name, "hidden.0.") ? 2
                                                               : 3;
    int64_t moved = 0;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(got[at], of_depth[depth][at]) << name;
      moved += got[at] != of_depth[(depth + 1) % 4][at] ? 1 : 0;
    }
    EXPECT_GT(moved, 0) << name;
  }
}

TEST(GenerationRunTest, ThreadsChangeNoBit) {
  ProgramConfig config = SmallJob(/*steps=*/5);
  config.model = {.kind = "gpt",
                  .settings = {{"window", {32}},
                               {"layers", {1}},
                               {"width", {64}},
                               {"dropout", {0.1}}}};
  const auto one = RunRanks(config, 1);
  const auto three = RunRanks(config, 1, /*threads=*/3);
  ASSERT_TRUE(three[0]->end.ok()) << three[0]->end.status();
  EXPECT_EQ(three[0]->state->ParametersHash(), one[0]->state->ParametersHash());
}

TEST(GenerationRunTest, LearnsTheSyntheticRule) {
  ProgramConfig config = SmallJob(/*steps=*/300);
  config.optimizer.learning_rate = 0.01;
  ProgramConfig untrained = config;
  untrained.program.set_steps(1);
  // Both evaluate on the same held-out samples at their end; the last forward
  // left the loss in the trace's company.
  const auto before = RunRanks(untrained, 1);
  const auto after = RunRanks(config, 2);
  ASSERT_TRUE(after[0]->end.ok()) << after[0]->end.status();
  Batch batch(64, after[0]->state->dataset().shape());
  std::vector<int64_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  ASSERT_TRUE(after[0]->state->ReserveBatch(64).ok());
  ASSERT_TRUE(before[0]->state->ReserveBatch(64).ok());
  ASSERT_TRUE(
      after[0]->state->dataset().FillBatch(Split::kHeldOut, ids, batch).ok());
  EXPECT_LT(after[0]->state->model().Predict(batch).loss_sum,
            0.8 * before[0]->state->model().Predict(batch).loss_sum);
}

// Returns true if the first reduction of `step` starts before its backward pass
// ends.
bool StartsReducingInBackward(const std::vector<TraceSpan>& spans,
                              int64_t step) {
  const auto is_backward = [&](const TraceSpan& span) {
    return std::strcmp(span.name, "backward") == 0 && span.step == step;
  };
  const auto backward = std::find_if(spans.begin(), spans.end(), is_backward);
  return backward != spans.end() &&
         std::any_of(spans.begin(), spans.end(), [&](const TraceSpan& span) {
           return std::strcmp(span.name, "all_reduce") == 0 && span.bytes > 0 &&
                  span.start >= backward->start && span.start < backward->end;
         });
}

TEST(GenerationRunTest, StartsReducingBeforeBackwardEndsOnEveryRank) {
  constexpr int64_t kSteps = 6;
  ProgramConfig config = SmallJob(kSteps);
  // Large enough that backward takes tens of milliseconds, so that a rank's
  // communication thread gets to run meanwhile, in one step or another, even where
  // ranks outnumber cores.
  config.model.settings["hidden_dim"] = {1024};
  config.model.settings["hidden_layers"] = {3};
  config.program.set_global_batch(256);
  config.program.set_bucket_bytes(256 << 10);
  const auto results = RunRanks(config, 2);
  for (const auto& result : results) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    const std::vector<TraceSpan> spans = result->trace.Spans();
    int overlapped = 0;
    for (int64_t step = 1; step <= kSteps; ++step)
      overlapped += StartsReducingInBackward(spans, step) ? 1 : 0;
    EXPECT_GT(overlapped, 0);
  }
}

// A data set whose samples never come.
class StuckDataset final : public Dataset {
 public:
  int64_t size(Split /*split*/) const override { return 4096; }
  const SampleShape& shape() const override { return shape_; }
  uint64_t fingerprint() const override { return 0; }
  absl::Status FillBatch(Split /*split*/, absl::Span<const int64_t> /*ids*/,
                         Batch& /*batch*/) const override {
    MutexLock lock(mutex_);
    while (!is_over_) changed_.Wait(mutex_);
    return absl::UnavailableError("the test is over");
  }
  void End() {
    MutexLock lock(mutex_);
    is_over_ = true;
    changed_.NotifyAll();
  }

 private:
  const SampleShape shape_ = {.tokens = 8};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool is_over_ GUARDED_BY(mutex_) = false;
};

// DEADLINE_EXCEEDED would be taken for a peer's silence, and a peer blamed.
TEST(GenerationRunTest, LateDataIsNoPeersFault) {
  Clock& clock = Clock::Real();
  const auto state = TrainingState::Create(SmallJob(/*steps=*/2)).value();
  ASSERT_TRUE(state->ReserveBatch(37).ok());
  StuckDataset dataset;
  const Listener listener = Listener::Listen("127.0.0.1:0").value();
  MeshConfig alone;
  alone.clock = &clock;
  const auto communicator = ConnectMesh(listener, alone, nullptr).value();
  Prefetcher prefetcher(dataset, state->sampler(),
                        {.global_batch = 37, .max_local_batch = 37}, clock);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  ProgressBoard board;
  const Wishes wishes;
  const CancelToken cancel;
  Trace trace;
  MetricRegistry metrics;
  TrainCounters counters(metrics);
  JobFiles files(
      *state, "job-1", board, [](const v1::Notice&) {}, clock);
  AllReduceSync sync(/*generation=*/1, absl::Milliseconds(1), *state,
                     *communicator, clock, trace);
  GenerationRun run(absl::Milliseconds(1),
                    {*state, *communicator, sync, prefetcher, board, wishes,
                     cancel, clock, trace, counters, files});
  EXPECT_EQ(run.Run().status().code(), absl::StatusCode::kResourceExhausted);
  dataset.End();
}

// A halt must be answered soon: a step is not finished for nothing.
TEST(GenerationRunTest, BeginsNoMicroBatchOnceItIsCancelled) {
  Clock& clock = Clock::Real();
  const auto state = TrainingState::Create(SmallJob(/*steps=*/2)).value();
  ASSERT_TRUE(state->ReserveBatch(37).ok());
  const Listener listener = Listener::Listen("127.0.0.1:0").value();
  MeshConfig alone;
  alone.clock = &clock;
  const auto communicator = ConnectMesh(listener, alone, nullptr).value();
  Prefetcher prefetcher(state->dataset(), state->sampler(),
                        {.global_batch = 37, .max_local_batch = 37}, clock);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  ProgressBoard board;
  const Wishes wishes;
  CancelToken cancel;
  cancel.Cancel("halted");
  Trace trace;
  MetricRegistry metrics;
  TrainCounters counters(metrics);
  JobFiles files(
      *state, "job-1", board, [](const v1::Notice&) {}, clock);
  AllReduceSync sync(/*generation=*/1, absl::Seconds(30), *state, *communicator,
                     clock, trace);
  GenerationRun run(absl::Seconds(30),
                    {*state, *communicator, sync, prefetcher, board, wishes,
                     cancel, clock, trace, counters, files});
  EXPECT_EQ(run.Run().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(state->complete_step(), 0);
}

// A stopped job leaves its last checkpoint, even if the same step's records ask
// for a pause, after which there would be none.
TEST(GenerationRunTest, AStopWinsOverAPause) {
  Clock& clock = Clock::Real();
  ProgramConfig config = SmallJob(/*steps=*/100);
  config.program.mutable_checkpoint()->set_directory(testing::TempDir() +
                                                     "/stop_wins_over_pause");
  const auto state = TrainingState::Create(config).value();
  ASSERT_TRUE(state->ReserveBatch(37).ok());
  const Listener listener = Listener::Listen("127.0.0.1:0").value();
  MeshConfig alone;
  alone.clock = &clock;
  const auto communicator = ConnectMesh(listener, alone, nullptr).value();
  Prefetcher prefetcher(state->dataset(), state->sampler(),
                        {.global_batch = 37, .max_local_batch = 37}, clock);
  ASSERT_TRUE(prefetcher.Start(1, 0, 1).ok());
  ProgressBoard board;
  Wishes wishes;
  wishes.stop = true;
  wishes.drain = true;
  const CancelToken cancel;
  Trace trace;
  MetricRegistry metrics;
  TrainCounters counters(metrics);
  int64_t written_step = 0;
  JobFiles files(
      *state, "job-1", board,
      [&](const v1::Notice& notice) {
        if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_WRITTEN)
          written_step = notice.step();
      },
      clock);
  ASSERT_TRUE(files
                  .BeginGeneration(/*generation=*/1, /*local_rank=*/0,
                                   *communicator, absl::Seconds(30))
                  .ok());
  AllReduceSync sync(/*generation=*/1, absl::Seconds(30), *state, *communicator,
                     clock, trace);
  GenerationRun run(absl::Seconds(30),
                    {*state, *communicator, sync, prefetcher, board, wishes,
                     cancel, clock, trace, counters, files});
  const absl::StatusOr<GenerationRun::End> end = run.Run();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, GenerationRun::End::kStopped);
  EXPECT_EQ(state->applied_step(), 1);
  EXPECT_EQ(written_step, 1);
}

TEST(GenerationRunTest, EvaluatesAllHeldOutSamplesWhateverTheWorldSize) {
  // More held-out samples than a rank computes between two exchanges.
  ProgramConfig config = SmallJob(/*steps=*/1);
  config.data.num_samples = 40000;
  config.data.eval_fraction = 0.5;
  config.program.set_evaluation_samples(0);
  const auto one = RunRanks(config, 1);
  const auto three = RunRanks(config, 3);
  EXPECT_GT(one[0]->evaluation_loss, 5.0);  // log(256) and a bit: untrained
  for (const auto& result : three) {
    EXPECT_NEAR(result->evaluation_loss, one[0]->evaluation_loss, 1e-4);
    EXPECT_EQ(result->evaluation_loss, three[0]->evaluation_loss);
    EXPECT_EQ(result->macro_f1, 0);  // it has tokens, and no classes
  }
}

TEST(GenerationRunTest, CountsWhatItDid) {
  const auto results = RunRanks(SmallJob(/*steps=*/10), 3);
  int64_t samples = 0;
  for (const auto& result : results) {
    TrainCounters counters(result->metrics);
    EXPECT_EQ(counters.steps.value(), 10);
    EXPECT_EQ(counters.skipped_updates.value(), 0);
    EXPECT_EQ(counters.refused_frames.value(), 0);
    EXPECT_GT(counters.payload_sent_bytes.value(), 0);
    samples += counters.samples.value();
  }
  EXPECT_EQ(samples, 10 * 37);
}

TEST(GenerationRunTest, GivesUpWhenTheGradientStaysInfinite) {
  ProgramConfig config = SmallJob(/*steps=*/100);
  config.optimizer.learning_rate = 1e30;
  const auto results = RunRanks(config, 2);
  for (const auto& result : results) {
    ASSERT_FALSE(result->end.ok());
    EXPECT_EQ(result->end.status().code(), absl::StatusCode::kInvalidArgument)
        << result->end.status();
    // The parameters that all share are too large.
    EXPECT_THAT(std::string(result->end.status().message()),
                AllOf(HasSubstr("not finite"),
                      HasSubstr("; it came from every rank; lower the")));
  }
}

TEST(GenerationRunTest, SkipsAsManyInfiniteGradientsInARowAsTheJobAllows) {
  ProgramConfig config = SmallJob(/*steps=*/100);
  config.optimizer.learning_rate = 1e30;
  for (const int64_t most : {1, 3}) {
    config.program.mutable_non_finite()->set_max_in_a_row(most);
    const auto results = RunRanks(config, 2);
    for (const auto& result : results) {
      EXPECT_EQ(result->end.status().code(), absl::StatusCode::kInvalidArgument)
          << result->end.status();
      EXPECT_EQ(result->state->skipped_in_a_row(), most);
    }
  }
}

}  // namespace
}  // namespace ringmaster
