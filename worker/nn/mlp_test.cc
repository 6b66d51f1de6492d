#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

constexpr int64_t kWindow = 3;

ModelConfig MlpConfig(double window, double embedding_dim, double hidden_dim,
                      double hidden_layers) {
  return {.kind = "mlp",
          .settings = {{"window", {window}},
                       {"embedding_dim", {embedding_dim}},
                       {"hidden_dim", {hidden_dim}},
                       {"hidden_layers", {hidden_layers}}}};
}

const ModelConfig kSmall = MlpConfig(kWindow, 4, 10, 2);

TEST(MlpTest, HasItsTensorsInReverseExecutionOrder) {
  EXPECT_EQ(
      ModelInstance<float>(kSmall).TensorLines(),
      (std::vector<std::string>{"output.weight [256,10]", "output.bias [256]",
                                "hidden.1.weight [10,10]", "hidden.1.bias [10]",
                                "hidden.0.weight [10,12]", "hidden.0.bias [10]",
                                "embedding.weight [256,4]"}));
}

TEST(MlpTest, FirstLossIsThatOfAGuess) {
  ModelInstance<float> mlp(ModelConfig(), 64);
  EXPECT_NEAR(mlp.Loss(mlp.RandomBatch(64, 5)) / 64, std::log(256), 0.3);
}

TEST(MlpTest, ContinuesTextFromTheLastBytesThatItSees) {
  ModelInstance<float> mlp(kSmall);
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *mlp.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(logits({7, 8, 9}).size(), 256u);
  EXPECT_EQ(logits({7, 8, 9}), logits({1, 2, 7, 8, 9}));
  EXPECT_EQ(logits({9}), logits({0, 0, 9}));
  EXPECT_NE(logits({7, 8, 9}), logits({9, 8, 7}));
}

TEST(MlpTest, CountsTheTargetsThatItPredicts) {
  ModelInstance<float> mlp(kSmall);
  Batch batch = mlp.RandomBatch(6, 3);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const absl::Span<const float> logits = *mlp.model->NextTokenLogits(
        batch.inputs().subspan(i * kWindow, kWindow));
    const auto best = std::max_element(logits.begin(), logits.end());
    // The first four are predicted, the others are not.
    batch.mutable_targets()[i] =
        static_cast<int32_t>((best - logits.begin() + (i < 4 ? 0 : 1)) % 256);
  }
  EXPECT_EQ(mlp.model->Predict(batch).correct, 4);
}

TEST(CreateModelTest, RefusesBadConfigsAndSaysWhy) {
  ThreadPool pool(1);
  const Compute compute = {.pool = pool};
  ModelConfig config = kSmall;
  config.kind = "gpt5";
  const absl::Status unknown = CreateModel<float>(config, compute, 1).status();
  EXPECT_EQ(unknown.message().substr(0, 32),
            "model.kind is \"gpt5\"; known are ");
  config = kSmall;
  config.settings["hidden_dim"] = {0};
  EXPECT_EQ(CreateModel<float>(config, compute, 1).status().message(),
            "model.mlp.hidden_dim is 0, but must be a whole number in [1, "
            "65536]");
  for (int64_t max_batch : {int64_t{-1}, (int64_t{1} << 20) + 1}) {
    EXPECT_EQ(CreateModel<float>(kSmall, compute, max_batch).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CreateModel<float>(MlpConfig(4096, 4096, 65536, 64), compute,
                               int64_t{1} << 20)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringmaster
