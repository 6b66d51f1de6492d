// A GPT-2 in the layout of Hugging Face's hub, and ours back in it.
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

constexpr char kDirectory[] = "tests/parity/golden/gpt2_tiny_hf";
constexpr char kLogits[] =
    "tests/parity/golden/gpt2_tiny_hf_logits.safetensors";

class HuggingFaceTest : public ::testing::Test {
 protected:
  HuggingFaceTest()
      : model_(*CreateModel<float>({.kind = "gpt",
                                    .settings = {{"vocabulary", {48}},
                                                 {"window", {16}},
                                                 {"layers", {2}},
                                                 {"heads", {2}},
                                                 {"width", {12}}}},
                                   {.pool = pool_}, 1)),
        plan_(*Plan::Create("gpt", model_->specs(), {})),
        parameters_(static_cast<size_t>(plan_.total_elems())),
        gradients_(parameters_.size()) {
    EXPECT_TRUE(
        model_->Bind(plan_, parameters_, absl::MakeSpan(gradients_)).ok());
  }

  // Relative to the norm of the golden logits.
  double LogitsError() {
    const SafetensorsFile file = SafetensorsFile::Open(kLogits).value();
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

TEST_F(HuggingFaceTest, ItsParametersGiveItsLogits) {
  EXPECT_GT(LogitsError(), 0.5) << "without its parameters";
  ASSERT_TRUE(
      ImportParameters(kDirectory, plan_, absl::MakeSpan(parameters_)).ok());
  EXPECT_LE(LogitsError(), 1e-5);
}

TEST_F(HuggingFaceTest, OurCheckpointsHaveItsNamesShapesAndValues) {
  ASSERT_TRUE(
      ImportParameters(kDirectory, plan_, absl::MakeSpan(parameters_)).ok());
  CheckpointContents contents;
  contents.step = 7;
  contents.plan = &plan_;
  contents.parameters = parameters_;
  contents.config_json = model_->HuggingFaceConfig();
  const std::string directory = ::testing::TempDir() + "/round_trip";
  const WrittenCheckpoint written =
      WriteCheckpoint(directory, contents).value();

  const SafetensorsFile theirs =
      SafetensorsFile::Open(std::string(kDirectory) + "/model.safetensors")
          .value();
  const SafetensorsFile ours =
      SafetensorsFile::Open(written.path + "/model.safetensors").value();
  EXPECT_EQ(ours.metadata().at("format"), "pt");
  size_t compared = 0;
  for (const SafetensorsEntry& their_entry : theirs.tensors()) {
    // The mask, a constant that newer versions do not write.
    if (their_entry.name.find(".attn.bias") != std::string::npos) continue;
    const SafetensorsEntry* const our_entry =
        ours.Find("transformer." + their_entry.name);
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

TEST_F(HuggingFaceTest, OurConfigSaysWhatItsConfigSays) {
  using nlohmann::json;
  std::ifstream file(std::string(kDirectory) + "/config.json");
  const json theirs = json::parse(file);
  const json ours = json::parse(model_->HuggingFaceConfig());
  for (const char* key : {"activation_function", "architectures",
                          "layer_norm_epsilon", "model_type", "n_embd",
                          "n_head", "n_layer", "n_positions", "vocab_size"}) {
    EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
  }
}

}  // namespace
}  // namespace ringmaster
