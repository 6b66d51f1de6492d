#include "worker/nn/hugging_face_config.h"

#include <string>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

using nlohmann::json;

json ConfigOf(const ModelConfig& model) {
  ThreadPool pool(1);
  return json::parse(
      (*CreateModel<float>(model, {.pool = pool}, 0))->HuggingFaceConfig());
}

const ModelConfig kLlama = {.kind = "llama",
                            .settings = {{"vocabulary", {300}},
                                         {"window", {16}},
                                         {"layers", {2}},
                                         {"heads", {4}},
                                         {"kv_heads", {2}},
                                         {"width", {16}},
                                         {"hidden", {40}},
                                         {"rope_theta", {500000}},
                                         {"norm_epsilon", {1e-6}},
                                         {"tied", {1}}}};

TEST(HuggingFaceConfigTest, IsTheInverseOfWhatModelsWrite) {
  const ModelConfig gpt = {.kind = "gpt",
                           .settings = {{"vocabulary", {300}},
                                        {"window", {16}},
                                        {"layers", {2}},
                                        {"heads", {4}},
                                        {"width", {16}}}};
  for (const ModelConfig& model : {gpt, kLlama}) {
    const auto read = ReadHuggingFaceConfig(ConfigOf(model).dump());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->CanonicalText(), model.CanonicalText());
  }
}

TEST(HuggingFaceConfigTest, LeavesOutTheKeysThatOlderVersionsDoNotHave) {
  json config = ConfigOf(kLlama);
  for (const char* key :
       {"num_key_value_heads", "rope_theta", "rope_scaling", "mlp_bias"})
    config.erase(key);
  const auto read = ReadHuggingFaceConfig(config.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->settings.contains("kv_heads"));
  EXPECT_FALSE(read->settings.contains("rope_theta"));
}

TEST(HuggingFaceConfigTest, UnderstandsWhatNewerVersionsWrite) {
  json config = ConfigOf(kLlama);
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 500000},
                               {"rope_type", "default"}};
  config["num_key_value_heads"] = nullptr;
  const auto read = ReadHuggingFaceConfig(config.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->settings.at("rope_theta").front(), 500000);
  EXPECT_FALSE(read->settings.contains("kv_heads"));
  config["rope_parameters"]["rope_type"] = "llama3";
  EXPECT_EQ(ReadHuggingFaceConfig(config.dump()).status().message(),
            "rope_type is \"llama3\", but the model llama has \"default\"");
}

TEST(HuggingFaceConfigTest, RefusesAnotherModelAndSaysWhy) {
  const auto error = [](const json& config) {
    return std::string(ReadHuggingFaceConfig(config.dump()).status().message());
  };
  EXPECT_EQ(ReadHuggingFaceConfig("{").status().message(),
            "describes no model of type gpt2 or llama or bert or roberta");
  EXPECT_EQ(error({{"model_type", "t5"}}),
            "describes no model of type gpt2 or llama or bert or roberta");
  json scaled = ConfigOf(kLlama);
  scaled["rope_scaling"] = {{"rope_type", "llama3"}};
  EXPECT_EQ(error(scaled),
            "rope_scaling is {\"rope_type\":\"llama3\"}, but the model llama "
            "has null");
  json biased = ConfigOf(kLlama);
  biased["attention_bias"] = true;
  EXPECT_EQ(error(biased),
            "attention_bias is true, but the model llama has false");
  json sizeless = ConfigOf(kLlama);
  sizeless.erase("hidden_size");
  EXPECT_EQ(error(sizeless), "hidden_size must be there, and a number");
}

}  // namespace
}  // namespace ringmaster
