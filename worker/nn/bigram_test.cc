#include <cmath>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

constexpr int64_t kVocabulary = 7;
constexpr int64_t kWindow = 5;

const ModelConfig kSmall = {.kind = "bigram",
                            .settings = {{"vocabulary", {kVocabulary}},
                                         {"window", {kWindow}},
                                         {"embedding_dim", {3}}}};

// Trains by plain gradient descent on pairs in which each token determines its
// successor.
TEST(BigramTest, LearnsWhatFollowsWhat) {
  ModelInstance<float> bigram(kSmall);
  Batch batch = bigram.RandomBatch(8, 3);
  for (size_t i = 0; i < batch.inputs().size(); ++i)
    batch.mutable_targets()[i] = (3 * batch.inputs()[i] + 1) % kVocabulary;
  const auto count = static_cast<int64_t>(batch.targets().size());
  EXPECT_NEAR(bigram.Loss(batch) / static_cast<double>(count),
              std::log(kVocabulary), 0.1);
  for (int step = 0; step < 300; ++step) {
    bigram.Train(batch, {.scale = 1.0 / static_cast<double>(count)});
    bigram.Descend(1);
  }
  EXPECT_EQ(bigram.model->Predict(batch).correct, count);
  const std::vector<int32_t> context = {1, 5, 2};
  const absl::Span<const float> logits =
      *bigram.model->NextTokenLogits(context);
  ASSERT_EQ(logits.size(), static_cast<size_t>(kVocabulary));
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_LE(logits[i], logits[(3 * 2 + 1) % kVocabulary]) << i;
}

TEST(BigramTest, RefusesABadSetting) {
  ThreadPool pool(1);
  ModelConfig config = kSmall;
  config.settings["window"] = {0};
  EXPECT_EQ(CreateModel<float>(config, {.pool = pool}, 1).status().message(),
            "model.bigram.window is 0, but must be a whole number in [1, "
            "65536]");
}

}  // namespace
}  // namespace ringmaster
