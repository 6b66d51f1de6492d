// Our models against golden files that PyTorch made (make_golden.py).
//
// Errors are relative: the norm of the difference, divided by the norm of what
// is expected.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/parity/parity_case.h"
#include "worker/checkpoint/safetensors.h"

namespace ringmaster::parity {
namespace {

std::string Golden(const std::string& name) {
  return "tests/parity/golden/" + name;
}

// A gradient that is zero except for rounding has no relative error, but AdamW
// makes full steps of it. Attention does not depend on a bias of the keys, the
// middle third of c_attn.bias, or all of self.key.bias.
bool IsKeyBias(const std::string& name, size_t i, size_t count) {
  if (name.ends_with("self.key.bias")) return true;
  return name.find("c_attn.bias") != std::string::npos && 3 * i >= count &&
         3 * i < 2 * count;
}

// Every model has these expectations; those that continue tokens have logits
// too.
bool IsExpectation(const std::string& name) {
  return name == "loss" || name == "losses" || name.starts_with("grad/") ||
         name.starts_with("after/");
}

double RelativeError(const std::string& name, const std::vector<double>& got,
                     const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size()) << name;
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (IsKeyBias(name, i, want.size())) continue;
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm == 0 ? 0 : std::sqrt(difference / norm);
}

std::vector<double> Read(const SafetensorsFile& file,
                         const SafetensorsEntry& entry) {
  const size_t count = static_cast<size_t>(entry.num_elems);
  std::vector<double> elems(count);
  if (entry.dtype == "F64") {
    EXPECT_TRUE(file.ReadBytes(entry, absl::MakeSpan(reinterpret_cast<uint8_t*>(
                                                         elems.data()),
                                                     count * sizeof(double)))
                    .ok());
    return elems;
  }
  std::vector<float> floats(count);
  EXPECT_TRUE(file.ReadFloats(entry, 0, absl::MakeSpan(floats)).ok());
  elems.assign(floats.begin(), floats.end());
  return elems;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Calls check(name, error, PyTorch's own error in `precision`) for everything
  // that the file expects.
  template <typename Check>
  static void Compare(Arithmetic arithmetic, const char* precision,
                      Check check) {
    const std::string path = Golden(GetParam()) + ".safetensors";
    const auto file = SafetensorsFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto results = RunCase(path, arithmetic);
    ASSERT_TRUE(results.ok()) << results.status();
    const auto torch_error =
        nlohmann::json::parse(file->metadata().at("torch_error"));
    for (const SafetensorsEntry& entry : file->tensors()) {
      if (IsExpectation(entry.name)) {
        EXPECT_TRUE(results->contains(entry.name)) << entry.name;
      }
    }
    int compared = 0;
    for (const auto& [name, result] : *results) {
      const SafetensorsEntry* const entry = file->Find(name);
      ASSERT_NE(entry, nullptr) << name;
      check(name, RelativeError(name, result.elems, Read(*file, *entry)),
            precision == nullptr
                ? 0.0
                : torch_error.at(precision).at(name).template get<double>());
      ++compared;
    }
    EXPECT_GT(compared, 10);
  }
};

TEST_P(GoldenTest, DoubleIsExactUpToTheFilesRounding) {
  Compare(Arithmetic::kFloat64, nullptr,
          [](const std::string& name, double error, double) {
            EXPECT_LE(error, 1e-6) << name;
          });
}

TEST_P(GoldenTest, FloatIsWithinOneInAHundredThousand) {
  Compare(Arithmetic::kFloat32, "fp32",
          [](const std::string& name, double error, double) {
            EXPECT_LE(error, name == "losses" ? 2e-5 : 1e-5) << name;
          });
}

// The effect of rounding on one tensor is chance, so PyTorch's error bounds all
// tensors of a kind together (the root of their errors' mean square), and each
// alone is held to twice that, or to one rounding of everything to bfloat16.
// Losses, a few numbers each, are held to 0.01.
TEST_P(GoldenTest, BFloat16IsAsGoodAsPyTorchs) {
  static constexpr double kOneRounding = 1.0 / 256;
  struct Squares {
    double ours = 0;
    double torch = 0;
  };
  std::map<std::string, Squares> kinds;  // "grad", "after", "logits", ...
  Compare(Arithmetic::kBFloat16, "bf16",
          [&kinds](const std::string& name, double error, double torch_error) {
            if (name.rfind("loss", 0) == 0) {
              EXPECT_LE(error, 0.01) << name;
              return;
            }
            EXPECT_LE(error, std::max(2 * torch_error, kOneRounding)) << name;
            Squares& squares = kinds[name.substr(0, name.find('/'))];
            squares.ours += error * error;
            squares.torch += torch_error * torch_error;
          });
  for (const auto& [kind, squares] : kinds) {
    EXPECT_LE(std::sqrt(squares.ours), 1.25 * std::sqrt(squares.torch)) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoldenTest,
    ::testing::Values("gpt_adamw", "gpt_clipped", "cnn_adamw", "mlp_adamw",
                      "mlp_sgd", "llama_adamw", "bert_adamw",
                      "roberta_classes_adamw", "resnet_sgd"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ringmaster::parity
