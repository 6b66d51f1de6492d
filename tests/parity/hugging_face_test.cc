// Models in the layout of Hugging Face's hub, and ours back in it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/import_parameters.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

// A model of the hub, as its files are, and as a job describes it.
struct HubModel {
  std::string name() const { return model.kind; }
  std::string directory() const { return files + "_tiny_hf"; }
  std::string logits() const { return files + "_tiny_hf_logits.safetensors"; }

  ModelConfig model;
  std::string files;
  // Before the names of tensors in our files, but not in the hub's.
  std::string prefix;
  // Of constants that newer versions do not write.
  std::string constant;
  // The settings of config.json that both have.
  std::vector<const char*> config_keys;
};

std::vector<HubModel> HubModels() {
  return {
      {{.kind = "gpt",
        .settings = {{"vocabulary", {48}},
                     {"window", {16}},
                     {"layers", {2}},
                     {"heads", {2}},
                     {"width", {12}}}},
       "tests/parity/golden/gpt2",
       "transformer.",
       ".attn.bias",
       {"activation_function", "architectures", "layer_norm_epsilon",
        "model_type", "n_embd", "n_head", "n_layer", "n_positions",
        "vocab_size"}},
      {{.kind = "llama",
        .settings = {{"vocabulary", {48}},
                     {"window", {16}},
                     {"layers", {2}},
                     {"heads", {4}},
                     {"kv_heads", {2}},
                     {"width", {24}},
                     {"hidden", {20}}}},
       "tests/parity/golden/llama",
       "",
       ".rotary_emb.inv_freq",
       {"architectures", "hidden_act", "hidden_size", "intermediate_size",
        "max_position_embeddings", "model_type", "num_attention_heads",
        "num_hidden_layers", "num_key_value_heads", "rms_norm_eps",
        "rope_scaling", "rope_theta", "tie_word_embeddings", "vocab_size"}}};
}

class HuggingFaceTest : public ::testing::TestWithParam<HubModel> {
 protected:
  HuggingFaceTest()
      : model_(*CreateModel<float>(GetParam().model, {.pool = pool_}, 1)),
        plan_(*Plan::Create(GetParam().name(), model_->specs(), {})),
        parameters_(static_cast<size_t>(plan_.total_elems())),
        gradients_(parameters_.size()) {
    EXPECT_TRUE(
        model_->Bind(plan_, parameters_, absl::MakeSpan(gradients_)).ok());
  }

  // Relative to the norm of the golden logits.
  double LogitsError() {
    const SafetensorsFile file =
        SafetensorsFile::Open(GetParam().logits()).value();
    const SafetensorsEntry& inputs = *file.Find("inputs");
    const SafetensorsEntry& logits = *file.Find("logits");
    std::vector<int32_t> ids(static_cast<size_t>(inputs.num_elems));
    EXPECT_TRUE(
        file.ReadBytes(inputs,
                       absl::MakeSpan(reinterpret_cast<uint8_t*>(ids.data()),
                                      ids.size() * sizeof(int32_t)))
            .ok());
    std::vector<float> want(static_cast<size_t>(logits.num_elems));
    EXPECT_TRUE(file.ReadFloats(logits, 0, absl::MakeSpan(want)).ok());
    const size_t window = static_cast<size_t>(inputs.shape[1]);
    double difference = 0;
    double norm = 0;
    size_t i = 0;
    for (size_t row = 0; row < ids.size(); row += window) {
      for (size_t length = 1; length <= window; ++length) {
        for (const float got : *model_->NextTokenLogits(
                 absl::MakeConstSpan(ids).subspan(row, length))) {
          difference += std::pow(got - want[i], 2);
          norm += std::pow(want[i++], 2);
        }
      }
    }
    EXPECT_EQ(i, want.size());
    return std::sqrt(difference / norm);
  }

  ThreadPool pool_{1};
  std::unique_ptr<Model<float>> model_;
  Plan plan_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
};

TEST_P(HuggingFaceTest, ItsParametersGiveItsLogits) {
  EXPECT_GT(LogitsError(), 0.5) << "without its parameters";
  ASSERT_TRUE(ImportParameters(GetParam().directory(), plan_,
                               absl::MakeSpan(parameters_))
                  .ok());
  EXPECT_LE(LogitsError(), 1e-5);
}

TEST_P(HuggingFaceTest, OurCheckpointsHaveItsNamesShapesAndValues) {
  ASSERT_TRUE(ImportParameters(GetParam().directory(), plan_,
                               absl::MakeSpan(parameters_))
                  .ok());
  CheckpointContents contents;
  contents.step = 7;
  contents.plan = &plan_;
  contents.parameters = parameters_;
  contents.config_json = model_->HuggingFaceConfig();
  const std::string directory = ::testing::TempDir() + "/round_trip";
  const WrittenCheckpoint written =
      WriteCheckpoint(directory, contents).value();

  const SafetensorsFile theirs =
      SafetensorsFile::Open(GetParam().directory() + "/model.safetensors")
          .value();
  const SafetensorsFile ours =
      SafetensorsFile::Open(written.path + "/model.safetensors").value();
  EXPECT_EQ(ours.metadata().at("format"), "pt");
  size_t compared = 0;
  for (const SafetensorsEntry& their_entry : theirs.tensors()) {
    if (their_entry.name.ends_with(GetParam().constant)) continue;
    const SafetensorsEntry* const our_entry =
        ours.Find(GetParam().prefix + their_entry.name);
    ASSERT_NE(our_entry, nullptr) << their_entry.name;
    EXPECT_EQ(our_entry->shape, their_entry.shape) << their_entry.name;
    std::vector<float> their_elems(static_cast<size_t>(their_entry.num_elems));
    std::vector<float> our_elems(their_elems.size());
    ASSERT_TRUE(
        theirs.ReadFloats(their_entry, 0, absl::MakeSpan(their_elems)).ok());
    ASSERT_TRUE(ours.ReadFloats(*our_entry, 0, absl::MakeSpan(our_elems)).ok());
    EXPECT_EQ(our_elems, their_elems) << their_entry.name;
    ++compared;
  }
  EXPECT_EQ(compared, ours.tensors().size());
}

TEST_P(HuggingFaceTest, OurConfigSaysWhatItsConfigSays) {
  using nlohmann::json;
  std::ifstream file(GetParam().directory() + "/config.json");
  const json theirs = json::parse(file);
  const json ours = json::parse(model_->HuggingFaceConfig());
  for (const char* key : GetParam().config_keys)
    EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFaceTest,
                         ::testing::ValuesIn(HubModels()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace ringmaster
