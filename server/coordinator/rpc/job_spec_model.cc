#include "server/coordinator/rpc/job_spec_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 31;
// Names are shown in errors.
constexpr size_t kMaxShownName = 80;
constexpr size_t kMaxSettings = 1000;

// Each dimension may be large, but not all of them together.
void RequireParameters(const std::string& path, double parameters,
                       SpecErrors& errors) {
  if (parameters <= static_cast<double>(kMaxParameters)) return;
  errors.Add(absl::StrCat(path, "'s number of parameters must be at most ",
                          kMaxParameters, ", got ", parameters));
}

void CheckMlp(v1::MlpSpec& mlp, SpecErrors& errors) {
  const std::string path = "train.model.mlp";
  if (mlp.window() == 0) mlp.set_window(16);
  if (mlp.embedding_dim() == 0) mlp.set_embedding_dim(32);
  if (mlp.hidden_dim() == 0) mlp.set_hidden_dim(256);
  if (mlp.hidden_layers() == 0) mlp.set_hidden_layers(2);
  SpecErrors own;
  own.RequireRange(path + ".window", mlp.window(), 1, 4096);
  own.RequireRange(path + ".embedding_dim", mlp.embedding_dim(), 1, 4096);
  own.RequireRange(path + ".hidden_dim", mlp.hidden_dim(), 1, 65536);
  own.RequireRange(path + ".hidden_layers", mlp.hidden_layers(), 1, 64);
  errors.Take(own);
  if (!own.empty()) return;
  constexpr double kBytes = 256;
  const double embedding = mlp.embedding_dim();
  const double hidden = mlp.hidden_dim();
  RequireParameters(path,
                    kBytes * embedding + mlp.window() * embedding * hidden +
                        hidden +
                        (mlp.hidden_layers() - 1) * (hidden * hidden + hidden) +
                        hidden * kBytes + kBytes,
                    errors);
}

// The sizes that GPT-2 was published in (Radford et al., 2019), and ours.
struct GptPreset {
  const char* name;
  int vocabulary;
  int window;
  int layers;
  int heads;
  int width;
};
constexpr GptPreset kGptDefaults = {"", 256, 256, 4, 4, 128};
constexpr std::array<GptPreset, 4> kGptPresets = {{
    {"gpt2", 50257, 1024, 12, 12, 768},
    {"gpt2-medium", 50257, 1024, 24, 16, 1024},
    {"gpt2-large", 50257, 1024, 36, 20, 1280},
    {"gpt2-xl", 50257, 1024, 48, 25, 1600},
}};

void FillGpt(v1::GptSpec& gpt, SpecErrors& errors) {
  const GptPreset* preset = &kGptDefaults;
  std::string known;
  for (const GptPreset& candidate : kGptPresets) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.name);
    if (gpt.preset() == candidate.name) preset = &candidate;
  }
  if (gpt.preset() != preset->name) {
    errors.Add(absl::StrCat(
        "train.model.gpt.preset must be one of ", known,
        ", or be left out, got \"",
        absl::CHexEscape(gpt.preset().substr(0, kMaxShownName)), "\""));
  }
  if (gpt.vocabulary() == 0) gpt.set_vocabulary(preset->vocabulary);
  if (gpt.window() == 0) gpt.set_window(preset->window);
  if (gpt.layers() == 0) gpt.set_layers(preset->layers);
  if (gpt.heads() == 0) gpt.set_heads(preset->heads);
  if (gpt.width() == 0) gpt.set_width(preset->width);
  if (gpt.sample_tokens() == 0) gpt.set_sample_tokens(gpt.window());
}

void CheckGpt(v1::GptSpec& gpt, SpecErrors& errors) {
  const std::string path = "train.model.gpt";
  FillGpt(gpt, errors);
  SpecErrors own;
  own.RequireRange(path + ".vocabulary", gpt.vocabulary(), 1, 1 << 20);
  own.RequireRange(path + ".window", gpt.window(), 1, 4096);
  own.RequireRange(path + ".layers", gpt.layers(), 1, 256);
  own.RequireRange(path + ".heads", gpt.heads(), 1, 256);
  own.RequireRange(path + ".width", gpt.width(), 1, 16384);
  own.RequireThat(gpt.dropout() >= 0 && gpt.dropout() <= 0.99,
                  path + ".dropout", "at least 0 and at most 0.99",
                  gpt.dropout());
  errors.Take(own);
  if (!own.empty()) return;
  if (gpt.width() % gpt.heads() != 0) {
    errors.Add(absl::StrCat(path, ".width must be a multiple of ", path,
                            ".heads (", gpt.heads(), "), got ", gpt.width()));
  }
  if (gpt.sample_tokens() < 1 || gpt.sample_tokens() > gpt.window()) {
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

// The numbers of parameters, once each dimension is in its bounds.
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

void CheckCnn(v1::CnnSpec& cnn, SpecErrors& errors) {
  const std::string path = "train.model.cnn";
  if (cnn.height() == 0) cnn.set_height(28);
  if (cnn.width() == 0) cnn.set_width(28);
  if (cnn.channels() == 0) cnn.set_channels(1);
  if (cnn.classes() == 0) cnn.set_classes(10);
  if (cnn.filters().empty()) {
    cnn.add_filters(32);
    cnn.add_filters(64);
  }
  if (cnn.hidden_dim() == 0) cnn.set_hidden_dim(128);
  SpecErrors own;
  own.RequireRange(path + ".height", cnn.height(), 1, 4096);
  own.RequireRange(path + ".width", cnn.width(), 1, 4096);
  own.RequireRange(path + ".channels", cnn.channels(), 1, 64);
  own.RequireRange(path + ".classes", cnn.classes(), 1, 1 << 20);
  own.RequireRange(path + ".hidden_dim", cnn.hidden_dim(), 1, 65536);
  own.RequireRange(path + ".filters' number of entries", cnn.filters_size(), 1,
                   16);
  for (int i = 0; i < std::min(cnn.filters_size(), 16); ++i) {
    own.RequireRange(absl::StrCat(path, ".filters[", i, "]"), cnn.filters(i), 1,
                     4096);
  }
  errors.Take(own);
  if (!own.empty()) return;
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

void CheckCustom(const v1::CustomModelSpec& custom, SpecErrors& errors) {
  const std::string path = "train.model.custom";
  if (custom.name().empty() || custom.name().size() > kMaxShownName) {
    errors.Add(absl::StrCat(path, ".name must have 1 to ", kMaxShownName,
                            " bytes, got ", custom.name().size()));
  }
  errors.RequireRange(path + ".settings' number of entries",
                      static_cast<int64_t>(custom.settings().size()), 0,
                      kMaxSettings);
  for (const auto& [name, value] : custom.settings()) {
    errors.RequireThat(
        std::isfinite(value),
        absl::StrCat(path, ".settings.",
                     absl::CHexEscape(name.substr(0, kMaxShownName))),
        "finite", value);
  }
}

}  // namespace

void CheckModel(v1::TrainProgram& train, SpecErrors& errors) {
  switch (train.model().model_case()) {
    case v1::ModelSpec::kMlp:
      CheckMlp(*train.mutable_model()->mutable_mlp(), errors);
      return;
    case v1::ModelSpec::kGpt:
      CheckGpt(*train.mutable_model()->mutable_gpt(), errors);
      return;
    case v1::ModelSpec::kCnn:
      CheckCnn(*train.mutable_model()->mutable_cnn(), errors);
      return;
    case v1::ModelSpec::kCustom:
      CheckCustom(train.model().custom(), errors);
      return;
    case v1::ModelSpec::MODEL_NOT_SET:
      errors.Add("train.model must name a model: mlp, gpt, cnn or custom");
      return;
  }
}

}  // namespace ringmaster::coordinator
