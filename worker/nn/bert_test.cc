#include <string>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/nn/hugging_face_config.h"
#include "worker/nn/model_registry.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster {
namespace {

using Settings = ModelConfig::Settings;

ModelConfig BertConfig(const Settings& more = {}) {
  ModelConfig config = {.kind = "bert",
                        .settings = {{"vocabulary", {11}},
                                     {"window", {6}},
                                     {"layers", {1}},
                                     {"heads", {2}},
                                     {"width", {8}},
                                     {"hidden", {12}}}};
  for (const auto& [name, value] : more) config.settings[name] = value;
  return config;
}

std::vector<std::string> BlockLines(const std::string& name) {
  std::vector<std::string> lines;
  for (const char* tensor :
       {"output.LayerNorm.weight [8]", "output.LayerNorm.bias [8]",
        "output.dense.weight [8,12]", "output.dense.bias [8]",
        "intermediate.dense.weight [12,8]", "intermediate.dense.bias [12]",
        "attention.output.LayerNorm.weight [8]",
        "attention.output.LayerNorm.bias [8]",
        "attention.output.dense.weight [8,8]",
        "attention.output.dense.bias [8]", "attention.self.value.weight [8,8]",
        "attention.self.value.bias [8]", "attention.self.key.weight [8,8]",
        "attention.self.key.bias [8]", "attention.self.query.weight [8,8]",
        "attention.self.query.bias [8]"}) {
    lines.push_back(name + "encoder.layer.0." + tensor);
  }
  return lines;
}

TEST(BertTest, HasHuggingFacesTensorsInReverseExecutionOrder) {
  std::vector<std::string> want = {
      "cls.predictions.bias [11]",
      "cls.predictions.transform.LayerNorm.weight [8]",
      "cls.predictions.transform.LayerNorm.bias [8]",
      "cls.predictions.transform.dense.weight [8,8]",
      "cls.predictions.transform.dense.bias [8]"};
  for (const std::string& line : BlockLines("bert.")) want.push_back(line);
  for (const char* tensor :
       {"LayerNorm.weight [8]", "LayerNorm.bias [8]",
        "token_type_embeddings.weight [2,8]",
        "position_embeddings.weight [6,8]", "word_embeddings.weight [11,8]"}) {
    want.push_back(std::string("bert.embeddings.") + tensor);
  }
  EXPECT_EQ(ModelInstance<float>(BertConfig()).TensorLines(), want);
}

TEST(BertTest, RobertasPositionsBeginAfterThatOfPadding) {
  const std::vector<std::string> lines =
      ModelInstance<float>(BertConfig({{"roberta", {1}}, {"classes", {3}}}))
          .TensorLines();
  const std::vector<std::string> head = {
      "classifier.out_proj.weight [3,8]", "classifier.out_proj.bias [3]",
      "classifier.dense.weight [8,8]", "classifier.dense.bias [8]"};
  EXPECT_EQ(std::vector<std::string>(lines.begin(), lines.begin() + 4), head);
  EXPECT_EQ(lines[lines.size() - 2],
            "roberta.embeddings.position_embeddings.weight [8,8]");
  EXPECT_EQ(lines[lines.size() - 3],
            "roberta.embeddings.token_type_embeddings.weight [1,8]");
}

TEST(BertTest, LearnsTheClassesOfABatchByHeart) {
  for (const double roberta : {0, 1}) {
    ModelInstance<float> bert(
        BertConfig({{"classes", {3}}, {"roberta", {roberta}}}));
    const Batch batch = bert.RandomBatch(6, 3);
    const double before = bert.Loss(batch);
    for (int step = 0; step < 300; ++step) {
      bert.Train(batch, {.scale = 1.0 / 6});
      bert.Descend(0.1f);
    }
    EXPECT_LT(bert.Loss(batch), 0.2 * before) << roberta;
    EXPECT_EQ(bert.model->Predict(batch).correct, 6) << roberta;
  }
}

// A text in which each token follows from its neighbours.
TEST(BertTest, LearnsToFillInMaskedTokens) {
  ModelInstance<float> bert(
      BertConfig({{"window", {12}}, {"masked_share", {0.2}}}));
  Batch batch = bert.RandomBatch(4, 3);
  for (size_t i = 0; i < batch.inputs().size(); ++i)
    batch.mutable_inputs()[i] = static_cast<int32_t>(i % 12 % 4);
  EXPECT_EQ(batch.shape().targets, 2);
  const double before = bert.Loss(batch);
  for (int step = 0; step < 400; ++step) {
    bert.Train(batch,
               {.scale = 1.0 / 8, .dropout_key = static_cast<uint64_t>(step)});
    bert.Descend(0.1f);
  }
  EXPECT_LT(bert.Loss(batch), 0.3 * before);
}

TEST(BertTest, PaddingHasNoInfluence) {
  for (const double roberta : {0, 1}) {
    const Settings settings = {{"classes", {3}},
                               {"roberta", {roberta}},
                               {"separator", {2}},
                               {"padding", {10}}};
    ModelInstance<double> bert(BertConfig(settings));
    Settings short_settings = settings;
    short_settings["sample_tokens"] = {4};
    ModelInstance<double> exact(BertConfig(short_settings));
    bert.RandomizeParameters();
    exact.parameters = bert.parameters;
    const std::vector<int32_t> text = {3, 4, 2, 5};
    Batch padded = bert.RandomBatch(1, 1);
    Batch unpadded = exact.RandomBatch(1, 1);
    for (size_t i = 0; i < 6; ++i)
      padded.mutable_inputs()[i] = i < 4 ? text[i] : 10;
    std::copy(text.begin(), text.end(), unpadded.mutable_inputs().begin());
    padded.mutable_targets()[0] = unpadded.mutable_targets()[0] = 1;
    EXPECT_NEAR(bert.Train(padded), exact.Train(unpadded), 1e-14);
    const std::vector<double> got = bert.Gradients();
    const std::vector<double> want = exact.Gradients();
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-13) << i;
    EXPECT_NEAR(bert.Loss(padded), exact.Loss(unpadded), 1e-14);
  }
}

TEST(BertTest, PredictsTheMaskedTokensOfAFixedShare) {
  const auto targets = [](double share, double tokens) {
    ModelInstance<float> bert(
        BertConfig({{"masked_share", {share}}, {"sample_tokens", {tokens}}}));
    EXPECT_TRUE(bert.model->input().shape.is_masked);
    return bert.model->input().shape.targets;
  };
  EXPECT_EQ(targets(0.15, 6), 1);
  EXPECT_EQ(targets(0.5, 6), 3);
  EXPECT_EQ(targets(0.99, 1), 1);
}

TEST(BertTest, DescribesItselfAsHuggingFaceDoesAndReadsThat) {
  const auto config_of = [](const Settings& settings) {
    ModelInstance<float> bert(BertConfig(settings), 1);
    return bert.model->HuggingFaceConfig();
  };
  const std::string masked = config_of({{"dropout", {0.1}}});
  const nlohmann::json json = nlohmann::json::parse(masked);
  EXPECT_EQ(json["architectures"], nlohmann::json({"BertForMaskedLM"}));
  EXPECT_EQ(json["max_position_embeddings"], 6);
  EXPECT_EQ(json["hidden_dropout_prob"], 0.1);
  EXPECT_FALSE(json.contains("id2label"));
  const std::string roberta =
      config_of({{"roberta", {1}}, {"classes", {3}}, {"norm_epsilon", {1e-5}}});
  const nlohmann::json of_classes = nlohmann::json::parse(roberta);
  EXPECT_EQ(of_classes["architectures"],
            nlohmann::json({"RobertaForSequenceClassification"}));
  EXPECT_EQ(of_classes["max_position_embeddings"], 8);
  EXPECT_EQ(of_classes["id2label"].size(), 3u);
  for (const std::string& text : {masked, roberta}) {
    const auto config = ReadHuggingFaceConfig(text);
    ASSERT_TRUE(config.ok()) << config.status();
    ModelInstance<float> again(*config, 1);
    nlohmann::json want = nlohmann::json::parse(text);
    nlohmann::json got =
        nlohmann::json::parse(again.model->HuggingFaceConfig());
    for (const char* key :
         {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
      want.erase(key);
      got.erase(key);
    }
    EXPECT_EQ(got, want);
  }
}

TEST(BertTest, RefusesBadSettingsAndSaysWhy) {
  ThreadPool pool(1);
  const auto error = [&](const Settings& settings) {
    return std::string(
        CreateModel<float>(BertConfig(settings), {.pool = pool}, 1)
            .status()
            .message());
  };
  EXPECT_EQ(error({{"heads", {3}}}),
            "model.bert.width is 8, but must be a multiple of heads, which is "
            "3");
  EXPECT_EQ(error({{"mask", {11}}}),
            "model.bert.mask is 11, but must be a whole number in [0, 10]");
  EXPECT_EQ(error({{"roberta", {2}}}),
            "model.bert.roberta is 2, but must be a whole number in [0, 1]");
}

}  // namespace
}  // namespace ringmaster
