// Images, from their files to a network that knows them: with ranks as threads
// of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/plan/counter_random.h"
#include "worker/data/testing/data_files.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {
namespace {

constexpr int kSide = 12;
constexpr int kClasses = 10;
constexpr uint32_t kImages = 1000;

// Returns true if a pixel belongs to the class's pattern; its coordinates are
// relative to a place that varies from image to image.
bool IsInPattern(int pattern, int x, int y) {
  const int far = std::max(std::abs(x), std::abs(y));
  switch (pattern) {
    case 0:  // lines, and lines across
      return (y & 2) == 0;
    case 1:
      return (x & 2) == 0;
    case 2:  // diagonals
      return ((x + y) & 2) == 0;
    case 3:
      return ((x - y) & 2) == 0;
    case 4:  // a chessboard
      return ((x ^ y) & 2) == 0;
    case 5:  // a square, a frame, a plus, an x, a spot
      return far <= 3;
    case 6:
      return far == 3;
    case 7:
      return far <= 3 && (x == 0 || y == 0);
    case 8:
      return far <= 3 && std::abs(x) == std::abs(y);
    default:
      return far <= 1;
  }
}

// Image `index` shows its class in some place and some contrast, under noise.
std::string Image(uint64_t index) {
  const auto random = [&](uint64_t counter, uint64_t bound) {
    return static_cast<int>(CounterRandom(index, counter) % bound);
  };
  const int left = 4 + random(0, 4);
  const int top = 4 + random(1, 4);
  const int contrast = 90 + random(2, 80);
  std::string pixels;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const bool is_in =
          IsInPattern(static_cast<int>(index % kClasses), x - left, y - top);
      const int noise = random(static_cast<uint64_t>(3 + y * kSide + x), 80);
      pixels.push_back(static_cast<char>(noise + (is_in ? contrast : 0)));
    }
  }
  return pixels;
}

ProgramConfig Job(const TestDirectory& directory) {
  std::string pixels;
  std::string labels;
  for (uint32_t i = 0; i < kImages; ++i) {
    pixels += Image(i);
    labels.push_back(static_cast<char>(i % kClasses));
  }
  ProgramConfig config;
  config.model = {.kind = "cnn",
                  .settings = {{"height", {kSide}},
                               {"width", {kSide}},
                               {"filters", {8, 16}},
                               {"hidden_dim", {32}}}};
  config.data = {.kind = "images", .eval_fraction = 0.2};
  config.data.path =
      directory.Write("images", IdxImagesFile(kImages, kSide, kSide, pixels));
  config.data.labels_path = directory.Write("labels", IdxLabelsFile(labels));
  config.optimizer.learning_rate = 0.005;
  config.program.set_steps(150);
  config.program.set_global_batch(50);
  config.program.set_evaluation_samples(0);
  config.program.set_bucket_bytes(16 << 10);
  config.program.set_hash_every(10);
  return config;
}

// Returns the accuracy on the held-out images.
double Accuracy(TrainingState& state) {
  const int64_t count = state.dataset().size(Split::kHeldOut);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  Batch batch(count, state.dataset().shape());
  EXPECT_TRUE(state.dataset().FillBatch(Split::kHeldOut, ids, batch).ok());
  EXPECT_TRUE(state.ReserveBatch(count).ok());
  return static_cast<double>(state.model().Predict(batch).correct) /
         static_cast<double>(count);
}

class CnnTrainingTest : public testing::TestWithParam<int> {};

TEST_P(CnnTrainingTest, LearnsToTellPatternsThatItHasNotSeen) {
  TestDirectory directory;
  ProgramConfig job = Job(directory);
  const auto results = RunRanks(job, GetParam());
  for (const auto& result : results) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    EXPECT_EQ(result->state->ParametersHash(),
              results[0]->state->ParametersHash());
  }
  EXPECT_GT(Accuracy(*results[0]->state), 0.95);
  EXPECT_LT(results[0]->evaluation_loss, 0.2);
  // For comparison: an untrained model.
  job.program.set_steps(1);
  EXPECT_LT(Accuracy(*RunRanks(job, 1)[0]->state), 0.5);
}

TEST(CnnEvaluationTest, CountsAreThoseOfAllSamplesForAnyNumberOfWorkers) {
  TestDirectory directory;
  ProgramConfig job = Job(directory);
  job.program.set_steps(20);
  const auto trained = RunRanks(job, 1);
  TrainingState& state = *trained[0]->state;
  const double accuracy = Accuracy(state);
  EXPECT_GT(trained[0]->top5_accuracy, accuracy);
  EXPECT_LT(trained[0]->top5_accuracy, 1);
  EXPECT_GT(trained[0]->macro_f1, 0.05);
  EXPECT_LT(trained[0]->macro_f1, accuracy + 0.1);
  // Of a model that stays as it is, since sums of gradients are rounded.
  job.program.set_steps(1);
  job.optimizer.learning_rate = 0;
  const auto alone = RunRanks(job, 1);
  for (const int world_size : {2, 3}) {
    for (const auto& result : RunRanks(job, world_size)) {
      ASSERT_TRUE(result->end.ok()) << result->end.status();
      EXPECT_EQ(result->top5_accuracy, alone[0]->top5_accuracy);
      EXPECT_EQ(result->macro_f1, alone[0]->macro_f1);
    }
  }
}

// A ResNet whose norms are over groups of five samples.
ProgramConfig ResnetJob(const TestDirectory& directory) {
  ProgramConfig job = Job(directory);
  job.model = {.kind = "resnet",
               .settings = {{"depth", {10}},
                            {"height", {kSide}},
                            {"width", {kSide}},
                            {"channels", {1}},
                            {"classes", {kClasses}},
                            {"filters", {4}},
                            {"norm_group", {5}}}};
  return job;
}

// What is trained, without the running statistics.
std::vector<double> Trained(const ProgramConfig& job, int ranks) {
  const auto results = RunRanks(job, ranks);
  for (const auto& result : results)
    EXPECT_TRUE(result->end.ok()) << result->end.status();
  const TrainingState& state = *results[0]->state;
  const absl::Span<const float> all = state.parameters().Elems<float>();
  return {all.begin() + state.plan().statistic_elems(), all.end()};
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i)
    squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

// Plain descent, whose steps are as close as the gradients are, of ranks with
// an unequal number of groups too.
TEST(ResnetTrainingTest, TrainsAlikeWithAnyNumberOfRanks) {
  TestDirectory directory;
  ProgramConfig job = ResnetJob(directory);
  job.optimizer = {.kind = "sgd", .learning_rate = 0.05, .weight_decay = 0};
  job.program.set_steps(2);
  const std::vector<double> want = Trained(job, 1);
  ProgramConfig idle = job;
  idle.optimizer.learning_rate = 1e-30;
  const double way = Distance(Trained(idle, 1), want);
  EXPECT_GT(way, 1e-3);
  for (const int ranks : {2, 3})
    EXPECT_LT(Distance(Trained(job, ranks), want), 1e-3 * way) << ranks;
}

// All ranks hold the running statistics alike.
TEST(ResnetTrainingTest, DoesTheSameWithAnyNumberOfRanks) {
  TestDirectory directory;
  ProgramConfig job = ResnetJob(directory);
  job.optimizer.clip_norm = 1;
  job.program.set_steps(6);
  const auto alone = RunRanks(job, 1);
  ASSERT_TRUE(alone[0]->end.ok()) << alone[0]->end.status();
  const absl::Span<const float> want =
      alone[0]->state->parameters().Elems<float>();
  const int64_t statistics = alone[0]->state->plan().statistic_elems();
  EXPECT_GT(statistics, 0);
  for (const int ranks : {2, 3}) {
    const auto results = RunRanks(job, ranks);
    for (const auto& result : results) {
      ASSERT_TRUE(result->end.ok()) << result->end.status();
      EXPECT_EQ(result->state->ParametersHash(),
                results[0]->state->ParametersHash());
    }
    const absl::Span<const float> got =
        results[0]->state->parameters().Elems<float>();
    // The first step's sums, and so Adam's steps, differ by rounding.
    double worst = 0;
    for (int64_t i = 0; i < statistics; ++i)
      worst = std::max(worst, std::abs(double{got[i]} - want[i]));
    EXPECT_LT(worst, 0.05) << ranks;
  }
  // They have moved.
  EXPECT_GT(std::abs(want[0]), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CnnTrainingTest, testing::Values(1, 2));

}  // namespace
}  // namespace ringmaster
