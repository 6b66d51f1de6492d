#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

constexpr int64_t kVocabulary = 11;
constexpr int64_t kWindow = 5;

ModelConfig LlamaConfig(double heads, double kv_heads, double width,
                        double hidden, double tied = 0) {
  return {.kind = "llama",
          .settings = {{"vocabulary", {kVocabulary}},
                       {"window", {kWindow}},
                       {"layers", {2}},
                       {"heads", {heads}},
                       {"kv_heads", {kv_heads}},
                       {"width", {width}},
                       {"hidden", {hidden}},
                       {"tied", {tied}}}};
}

TEST(LlamaTest, HasHuggingFacesTensorsInReverseExecutionOrder) {
  std::vector<std::string> want = {"lm_head.weight [11,8]",
                                   "model.norm.weight [8]"};
  for (const std::string block : {"model.layers.1.", "model.layers.0."}) {
    for (const char* tensor :
         {"mlp.down_proj.weight [8,12]", "mlp.up_proj.weight [12,8]",
          "mlp.gate_proj.weight [12,8]", "post_attention_layernorm.weight [8]",
          "self_attn.o_proj.weight [8,8]", "self_attn.v_proj.weight [4,8]",
          "self_attn.k_proj.weight [4,8]", "self_attn.q_proj.weight [8,8]",
          "input_layernorm.weight [8]"}) {
      want.push_back(block + tensor);
    }
  }
  want.push_back("model.embed_tokens.weight [11,8]");
  EXPECT_EQ(ModelInstance<float>(LlamaConfig(2, 1, 8, 12)).TensorLines(), want);
  want.erase(want.begin());
  EXPECT_EQ(ModelInstance<float>(LlamaConfig(2, 1, 8, 12, 1)).TensorLines(),
            want);
}

TEST(LlamaTest, LearnsABatchByHeart) {
  for (const double tied : {0, 1}) {
    ModelInstance<float> llama(LlamaConfig(2, 1, 8, 24, tied));
    const Batch batch = llama.RandomBatch(4, 3);
    const double before = llama.Loss(batch);
    for (int step = 0; step < 400; ++step) {
      llama.Train(batch, {.scale = 1.0 / 20});
      llama.Descend(0.5f);
    }
    EXPECT_LT(llama.Loss(batch), 0.2 * before) << tied;
  }
}

double CrossEntropy(absl::Span<const double> logits, int32_t target) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[target];
}

// If a window saw later tokens, or positions were shifted, the two would differ.
TEST(LlamaTest, PredictsEachTokenFromThoseBeforeIt) {
  ModelInstance<double> llama(LlamaConfig(4, 2, 16, 12));
  llama.RandomizeParameters();
  const Batch batch = llama.RandomBatch(2, 3);
  double loss_sum = 0;
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t t = 0; t < kWindow; ++t) {
      const absl::Span<const double> logits = *llama.model->NextTokenLogits(
          batch.inputs().subspan(sample * kWindow, t + 1));
      loss_sum += CrossEntropy(logits, batch.targets()[sample * kWindow + t]);
    }
  }
  EXPECT_NEAR(llama.model->Predict(batch).loss_sum, loss_sum, 1e-11);
}

TEST(LlamaTest, ContinuesTextFromTheLastTokensThatItSees) {
  ModelInstance<float> llama(LlamaConfig(2, 2, 8, 12));
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *llama.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(logits({7, 8, 9, 1, 2}), logits({3, 3, 7, 8, 9, 1, 2}));
  EXPECT_NE(logits({7, 8, 9, 1, 2}), logits({8, 7, 9, 1, 2}));
}

// Heads that share a key are those of a model in which each has a copy of it.
TEST(LlamaTest, SharedKeysAreCopies) {
  constexpr int64_t kHeadDim = 4;
  ModelInstance<double> shared(LlamaConfig(4, 2, 16, 12));
  ModelInstance<double> copies(LlamaConfig(4, 4, 16, 12));
  shared.RandomizeParameters();
  for (size_t i = 0; i < shared.plan.tensors().size(); ++i) {
    const PlannedTensor& from = shared.plan.tensors()[i];
    const PlannedTensor& to = copies.plan.tensors()[i];
    ASSERT_EQ(from.spec.name, to.spec.name);
    const int64_t head_elems = kHeadDim * 16;
    for (int64_t at = 0; at < to.range.count; ++at) {
      const int64_t copied =
          from.range.count == to.range.count
              ? at
              : at / head_elems / 2 * head_elems + at % head_elems;
      copies.parameters[to.range.begin + at] =
          shared.parameters[from.range.begin + copied];
    }
  }
  const Batch batch = shared.RandomBatch(3, 5);
  EXPECT_NEAR(shared.Loss(batch), copies.Loss(batch), 1e-12);
}

TEST(LlamaTest, DescribesItselfAsHuggingFaceDoes) {
  ModelInstance<float> llama(LlamaConfig(4, 2, 16, 12, 1), 1);
  const nlohmann::json config =
      nlohmann::json::parse(llama.model->HuggingFaceConfig());
  EXPECT_EQ(config["architectures"], nlohmann::json({"LlamaForCausalLM"}));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(config["intermediate_size"], 12);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["max_position_embeddings"], kWindow);
  EXPECT_EQ(config["rms_norm_eps"], 1e-5);
  EXPECT_EQ(config["rope_theta"], 10000);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_TRUE(config.at("eos_token_id").is_null());
  EXPECT_TRUE(config.at("bos_token_id").is_null());
}

TEST(LlamaTest, RefusesBadSettingsAndSaysWhy) {
  ThreadPool pool(1);
  const auto error = [&](const ModelConfig& config) {
    return std::string(
        CreateModel<float>(config, {.pool = pool}, 1).status().message());
  };
  EXPECT_EQ(error(LlamaConfig(4, 2, 20, 12)),
            "model.llama.width is 20, but must be an even multiple of heads, "
            "which is 4");
  EXPECT_EQ(error(LlamaConfig(4, 3, 16, 12)),
            "model.llama.kv_heads is 3, but must divide heads, which is 4");
  EXPECT_EQ(error(LlamaConfig(4, 2, 16, 12, 2)),
            "model.llama.tied is 2, but must be a whole number in [0, 1]");
}

}  // namespace
}  // namespace ringmaster
