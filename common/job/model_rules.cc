#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"
#include "common/text/quoted.h"

namespace ringmaster {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 31;

// Each dimension may be large, but not all of them together.
void RequireParameters(const std::string& path, double parameters,
                       SpecErrors& errors) {
  if (parameters <= static_cast<double>(kMaxParameters)) return;
  errors.Add(absl::StrCat(path, "'s number of parameters must be at most ",
                          kMaxParameters, ", got ", parameters));
}

void CheckMlp(const v1::MlpSpec& mlp, SpecErrors& errors) {
  constexpr double kBytes = 256;
  const double embedding = mlp.embedding_dim();
  const double hidden = mlp.hidden_dim();
  RequireParameters("train.model.mlp",
                    kBytes * embedding + mlp.window() * embedding * hidden +
                        hidden +
                        (mlp.hidden_layers() - 1) * (hidden * hidden + hidden) +
                        hidden * kBytes + kBytes,
                    errors);
}

// The sizes that GPT-2 was published in (Radford et al., 2019).
struct GptPreset {
  const char* name;
  int vocabulary;
  int window;
  int layers;
  int heads;
  int width;
};
constexpr std::array<GptPreset, 4> kGptPresets = {{
    {"gpt2", 50257, 1024, 12, 12, 768},
    {"gpt2-medium", 50257, 1024, 24, 16, 1024},
    {"gpt2-large", 50257, 1024, 36, 20, 1280},
    {"gpt2-xl", 50257, 1024, 48, 25, 1600},
}};

void CheckGpt(const v1::GptSpec& gpt, SpecErrors& errors) {
  const std::string path = "train.model.gpt";
  if (gpt.width() % gpt.heads() != 0) {
    errors.Add(absl::StrCat(path, ".width must be a multiple of ", path,
                            ".heads (", gpt.heads(), "), got ", gpt.width()));
  }
  if (gpt.sample_tokens() > gpt.window()) {
    errors.Add(absl::StrCat(path, ".sample_tokens must be at least 1 and at ",
                            "most ", path, ".window (", gpt.window(), "), got ",
                            gpt.sample_tokens()));
  }
  // A block has 12 w^2 weights and 13 w biases and factors of norms; the last
  // norm has 2 w. The token embedding is the output's weight too.
  const double width = gpt.width();
  RequireParameters(path,
                    (double{1} * gpt.vocabulary() + gpt.window()) * width +
                        gpt.layers() * (12 * width * width + 13 * width) +
                        2 * width,
                    errors);
}

double CnnParameters(const v1::CnnSpec& cnn) {
  double parameters = 0;
  double channels = cnn.channels();
  for (const int filters : cnn.filters()) {
    parameters += (9 * channels + 1) * filters;
    channels = filters;
  }
  const double features = channels * (cnn.height() >> cnn.filters_size()) *
                          (cnn.width() >> cnn.filters_size());
  const double hidden = cnn.hidden_dim();
  return parameters + (features + 1) * hidden + (hidden + 1) * cnn.classes();
}

void CheckCnn(const v1::CnnSpec& cnn, SpecErrors& errors) {
  const std::string path = "train.model.cnn";
  const int least = 1 << cnn.filters_size();
  if (cnn.height() < least || cnn.width() < least) {
    errors.Add(absl::StrCat(
        path, ".filters has ", cnn.filters_size(),
        " entries, each of which halves the image: it must be at least ", least,
        "x", least, " pixels, got ", cnn.height(), "x", cnn.width()));
    return;
  }
  RequireParameters(path, CnnParameters(cnn), errors);
}

}  // namespace

void FillPreset(v1::GptSpec& gpt, SpecErrors& errors) {
  if (gpt.preset().empty()) return;
  std::string known;
  for (const GptPreset& preset : kGptPresets) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", preset.name);
    if (gpt.preset() != preset.name) continue;
    if (gpt.vocabulary() == 0) gpt.set_vocabulary(preset.vocabulary);
    if (gpt.window() == 0) gpt.set_window(preset.window);
    if (gpt.layers() == 0) gpt.set_layers(preset.layers);
    if (gpt.heads() == 0) gpt.set_heads(preset.heads);
    if (gpt.width() == 0) gpt.set_width(preset.width);
    return;
  }
  errors.Add(absl::StrCat("train.model.gpt.preset must be one of ", known,
                          ", or be left out, got ", Quoted(gpt.preset())));
}

bool HasAllSizes(const v1::GptSpec& gpt) {
  return gpt.vocabulary() != 0 && gpt.window() != 0 && gpt.layers() != 0 &&
         gpt.heads() != 0 && gpt.width() != 0;
}

void CheckModel(const v1::ModelSpec& model, SpecErrors& errors) {
  switch (model.model_case()) {
    case v1::ModelSpec::kMlp:
      CheckMlp(model.mlp(), errors);
      return;
    case v1::ModelSpec::kGpt:
      CheckGpt(model.gpt(), errors);
      return;
    case v1::ModelSpec::kCnn:
      CheckCnn(model.cnn(), errors);
      return;
    case v1::ModelSpec::kCustom:
    case v1::ModelSpec::MODEL_NOT_SET:
      return;
  }
}

}  // namespace ringmaster
