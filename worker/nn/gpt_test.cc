#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/transport/cancel_token.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

constexpr int64_t kVocabulary = 11;
constexpr int64_t kWindow = 5;

ModelConfig GptConfig(double vocabulary, double window, double layers,
                      double heads, double width, double dropout = 0) {
  return {.kind = "gpt",
          .settings = {{"vocabulary", {vocabulary}},
                       {"window", {window}},
                       {"layers", {layers}},
                       {"heads", {heads}},
                       {"width", {width}},
                       {"dropout", {dropout}}}};
}

const ModelConfig kSmall = GptConfig(kVocabulary, kWindow, 2, 2, 8);
const ModelConfig kSmallDropping =
    GptConfig(kVocabulary, kWindow, 2, 2, 8, 0.2);
// Wide enough for blocked kernels, with sizes that fill no block.
const ModelConfig kMiddle = GptConfig(300, 70, 3, 3, 144);

TEST(GptTest, HasHuggingFacesTensorsInReverseExecutionOrder) {
  std::vector<std::string> want = {"transformer.ln_f.weight [8]",
                                   "transformer.ln_f.bias [8]"};
  for (const std::string block : {"transformer.h.1.", "transformer.h.0."}) {
    for (const char* tensor :
         {"mlp.c_proj.weight [32,8]", "mlp.c_proj.bias [8]",
          "mlp.c_fc.weight [8,32]", "mlp.c_fc.bias [32]", "ln_2.weight [8]",
          "ln_2.bias [8]", "attn.c_proj.weight [8,8]", "attn.c_proj.bias [8]",
          "attn.c_attn.weight [8,24]", "attn.c_attn.bias [24]",
          "ln_1.weight [8]", "ln_1.bias [8]"}) {
      want.push_back(block + tensor);
    }
  }
  want.push_back("transformer.wpe.weight [5,8]");
  want.push_back("transformer.wte.weight [11,8]");
  EXPECT_EQ(ModelInstance<float>(kSmall).TensorLines(), want);
}

TEST(GptTest, InitialParametersAreGpt2s) {
  ModelInstance<float> gpt(GptConfig(300, 64, 8, 2, 64));
  for (const PlannedTensor& tensor : gpt.plan.tensors()) {
    double squares = 0;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      squares += std::pow(gpt.parameters[i], 2);
    const std::string& name = tensor.spec.name;
    const double size =
        std::sqrt(squares / static_cast<double>(tensor.range.count));
    const bool is_projection = name.find("c_proj.weight") != std::string::npos;
    if (name.ends_with(".bias")) {
      EXPECT_EQ(size, 0) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_EQ(size, 1) << name;
    } else {
      const double want = is_projection ? 0.02 / 4 : 0.02;
      EXPECT_NEAR(size, want, 0.06 * want) << name;
    }
  }
}

TEST(GptTest, DropoutIsAFunctionOfTheKeyAndIsOffInPrediction) {
  ModelInstance<double> gpt(kSmallDropping);
  const Batch batch = gpt.RandomBatch(8, 3);
  ModelInstance<double> plain(kSmall);
  const double loss = gpt.Train(batch, {.dropout_key = 4});
  const std::vector<double> gradients = gpt.gradients;
  EXPECT_NE(gpt.Train(batch, {.dropout_key = 5}), loss);
  EXPECT_EQ(gpt.Train(batch, {.dropout_key = 4}), loss);
  EXPECT_EQ(std::memcmp(gpt.gradients.data(), gradients.data(),
                        gradients.size() * sizeof(double)),
            0);
  EXPECT_NE(loss, plain.Loss(batch));
  EXPECT_EQ(gpt.Loss(batch), plain.Loss(batch));
}

TEST(GptTest, LearnsABatchByHeart) {
  ModelInstance<float> gpt(kSmall);
  const Batch batch = gpt.RandomBatch(4, 3);
  const double before = gpt.Loss(batch);
  for (int step = 0; step < 300; ++step) {
    gpt.Train(batch, {.scale = 1.0 / 20});
    gpt.Descend(0.5f);
  }
  EXPECT_LT(gpt.Loss(batch), 0.2 * before);
}

double CrossEntropy(absl::Span<const double> logits, int32_t target) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[target];
}

// A window predicts all places at once; a next token's logits come from the
// tokens before it alone. If a window saw later tokens or shifted positions,
// the two would differ.
TEST(GptTest, PredictsEachTokenFromThoseBeforeIt) {
  ModelInstance<double> gpt(kSmall);
  gpt.RandomizeParameters();
  const Batch batch = gpt.RandomBatch(2, 3);
  double loss_sum = 0;
  int64_t correct = 0;
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t t = 0; t < kWindow; ++t) {
      const absl::Span<const double> logits = *gpt.model->NextTokenLogits(
          batch.inputs().subspan(sample * kWindow, t + 1));
      const int32_t target = batch.targets()[sample * kWindow + t];
      ASSERT_EQ(logits.size(), static_cast<size_t>(kVocabulary));
      loss_sum += CrossEntropy(logits, target);
      correct +=
          std::max_element(logits.begin(), logits.end()) - logits.begin() ==
                  target
              ? 1
              : 0;
    }
  }
  const Prediction prediction = gpt.model->Predict(batch);
  EXPECT_NEAR(prediction.loss_sum, loss_sum, 1e-11);
  EXPECT_EQ(prediction.correct, correct);
}

TEST(GptTest, CountsTheTargetsThatItPredicts) {
  ModelInstance<float> gpt(kSmall);
  gpt.RandomizeParameters();
  Batch batch = gpt.RandomBatch(2, 3);
  for (int64_t i = 0; i < 2 * kWindow; ++i) {
    const int64_t begin = i / kWindow * kWindow;
    const absl::Span<const float> logits = *gpt.model->NextTokenLogits(
        batch.inputs().subspan(begin, i - begin + 1));
    const auto best = std::max_element(logits.begin(), logits.end());
    // The first seven are predicted, the others are not.
    batch.mutable_targets()[i] = static_cast<int32_t>(
        (best - logits.begin() + (i < 7 ? 0 : 1)) % kVocabulary);
  }
  EXPECT_EQ(gpt.model->Predict(batch).correct, 7);
}

TEST(GptTest, ContinuesTextFromTheLastTokensThatItSees) {
  ModelInstance<float> gpt(kSmall);
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *gpt.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(logits({7, 8, 9, 1, 2}), logits({3, 3, 7, 8, 9, 1, 2}));
  EXPECT_NE(logits({7, 8, 9, 1, 2}), logits({8, 7, 9, 1, 2}));
  EXPECT_NE(logits({7}), logits({0, 7}));
}

TEST(GptTest, DescribesItselfAsHuggingFaceDoes) {
  ModelInstance<float> gpt(GptConfig(50257, 16, 2, 2, 8, 0.1), 1);
  const nlohmann::json config =
      nlohmann::json::parse(gpt.model->HuggingFaceConfig());
  EXPECT_EQ(config["architectures"], nlohmann::json({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["vocab_size"], 50257);
  EXPECT_EQ(config["n_positions"], 16);
  EXPECT_EQ(config["n_embd"], 8);
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_head"], 2);
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(config["resid_pdrop"], 0.1);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["eos_token_id"], 50256);
  ModelInstance<float> bytes(kSmall, 1);
  EXPECT_TRUE(nlohmann::json::parse(bytes.model->HuggingFaceConfig())
                  .at("eos_token_id")
                  .is_null());
}

TEST(GptTest, CountsOperationsAndParametersOfGpt2) {
  ThreadPool pool(1);
  const auto model = *CreateModel<float>(GptConfig(50257, 1024, 12, 12, 768),
                                         {.pool = pool}, 0);
  int64_t parameters = 0;
  for (const TensorSpec& spec : model->specs())
    parameters += spec.shape.num_elems();
  EXPECT_EQ(parameters, 124439808);
  const double products = 12 * 12 * 768.0 * 768 + 50257 * 768.0;
  EXPECT_EQ(model->flops_per_sample(),
            1024 * (6 * products + 6.0 * 12 * 768 * 1024));
  EXPECT_EQ(model->input().shape,
            (SampleShape{.tokens = 1024, .targets = 1024}));
  EXPECT_EQ(model->input().vocabulary, 50257);
  EXPECT_EQ(model->max_batch(), 0);
}

TEST(GptTest, BuffersGrowWithTheBatch) {
  ThreadPool pool(1);
  const auto bytes = [&](int64_t max_batch) {
    return (*CreateModel<float>(kMiddle, {.pool = pool}, max_batch))
        ->buffer_bytes();
  };
  // 16 rows of width for each of three blocks, at least.
  EXPECT_GT(bytes(8) - bytes(4), 4 * 70 * 3 * 16 * 144 * 4);
  EXPECT_LT(bytes(8) - bytes(4), 4 * 70 * 3 * 32 * 144 * 4);
}

TEST(GptTest, RefusesBadSettingsAndSaysWhy) {
  ThreadPool pool(1);
  const auto error = [&](const ModelConfig& config) {
    return std::string(
        CreateModel<float>(config, {.pool = pool}, 1).status().message());
  };
  EXPECT_EQ(error(GptConfig(11, 5, 2, 3, 8)),
            "model.gpt.width is 8, but must be a multiple of heads, which is "
            "3");
  EXPECT_EQ(error(GptConfig(0, 5, 2, 2, 8)),
            "model.gpt.vocabulary is 0, but must be a whole number in [1, "
            "1048576]");
  EXPECT_EQ(error(GptConfig(11, 5, 2, 2, 8, 1)),
            "model.gpt.dropout is 1, but must be in [0, 0.99]");
  EXPECT_EQ(CreateModel<float>(GptConfig(1 << 20, 4096, 256, 256, 16384),
                               {.pool = pool}, int64_t{1} << 20)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

// The positions that the model has beyond a sample stay as they were.
TEST(GptTest, SamplesMayBeShorterThanTheWindow) {
  ModelConfig longer = GptConfig(kVocabulary, kWindow + 4, 2, 2, 8);
  longer.settings["sample_tokens"] = {kWindow};
  ModelInstance<double> seen(kSmall);
  ModelInstance<double> more(longer);
  const Batch batch = seen.RandomBatch(4, 7);
  EXPECT_EQ(more.Train(batch), seen.Train(batch));
  for (const PlannedTensor& tensor : more.plan.tensors()) {
    if (tensor.spec.name != "transformer.wpe.weight") continue;
    const int64_t first_unseen = tensor.range.begin + kWindow * 8;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      EXPECT_EQ(more.gradients[i] == 0, i >= first_unseen) << i;
  }
  const std::vector<int32_t> context(kWindow + 4, 3);
  EXPECT_TRUE(more.model->NextTokenLogits(context).ok());
}

// A halt must be answered sooner than a large model's pass takes.
TEST(GptTest, ReturnsAtTheNextBlockOnceItIsCancelled) {
  class CancelAtBlock final : public GradientObserver {
   public:
    explicit CancelAtBlock(CancelToken& cancel) : cancel_(cancel) {}
    void OnTensorDone(int tensor_index) override {
      last = tensor_index;
      cancel_.Cancel("halted");
    }
    int last = -1;

   private:
    CancelToken& cancel_;
  };
  ModelInstance<float> gpt(kSmall);
  CancelToken cancel;
  CancelAtBlock observer(cancel);
  const Batch batch = gpt.RandomBatch(2, 7);
  gpt.model->ForwardBackward(batch, {.cancel = &cancel}, observer);
  EXPECT_EQ(gpt.plan.tensors()[observer.last].spec.name,
            "transformer.ln_f.bias");
  observer.last = -1;
  gpt.model->ForwardBackward(batch, {.cancel = &cancel}, observer);
  EXPECT_EQ(observer.last, -1);
}

}  // namespace
}  // namespace ringmaster
