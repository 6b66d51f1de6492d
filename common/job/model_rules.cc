#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"
#include "common/job/token_model.h"

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

void CheckSampleTokens(const TokenModel& model, SpecErrors& errors) {
  if (model.sample_tokens <= model.window) return;
  const std::string path = absl::StrCat("train.model.", model.kind);
  errors.Add(absl::StrCat(path, ".sample_tokens must be at least 1 and at ",
                          "most ", path, ".window (", model.window, "), got ",
                          model.sample_tokens));
}

void CheckGpt(const v1::GptSpec& gpt, SpecErrors& errors) {
  const std::string path = "train.model.gpt";
  if (gpt.width() % gpt.heads() != 0) {
    errors.Add(absl::StrCat(path, ".width must be a multiple of ", path,
                            ".heads (", gpt.heads(), "), got ", gpt.width()));
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

void CheckLlama(const v1::LlamaSpec& llama, SpecErrors& errors) {
  const std::string path = "train.model.llama";
  if (llama.width() % (2 * llama.heads()) != 0) {
    errors.Add(absl::StrCat(path, ".width must be an even multiple of ", path,
                            ".heads (", llama.heads(), "), got ",
                            llama.width()));
  }
  if (llama.heads() % llama.kv_heads() != 0) {
    errors.Add(absl::StrCat(path, ".kv_heads must divide ", path, ".heads (",
                            llama.heads(), "), got ", llama.kv_heads()));
  }
  // A block has queries and the way out, keys and values, three products in its
  // MLP, and two norms.
  const double width = llama.width();
  const double shared = double{1} * llama.kv_heads() / llama.heads();
  const double block =
      2 * width * width * (1 + shared) + 3 * width * llama.hidden() + 2 * width;
  RequireParameters(path,
                    (llama.tied() ? 1.0 : 2.0) * llama.vocabulary() * width +
                        llama.layers() * block + width,
                    errors);
}

void CheckBert(const v1::BertSpec& bert, SpecErrors& errors) {
  const std::string path = "train.model.bert";
  if (bert.width() % bert.heads() != 0) {
    errors.Add(absl::StrCat(path, ".width must be a multiple of ", path,
                            ".heads (", bert.heads(), "), got ", bert.width()));
  }
  const auto check_id = [&](const char* field, int id) {
    if (id < bert.vocabulary()) return;
    errors.Add(absl::StrCat(path, ".", field, " must be less than ", path,
                            ".vocabulary (", bert.vocabulary(), "), got ", id));
  };
  check_id("padding", bert.padding());
  check_id("separator", bert.separator());
  check_id("mask", bert.mask());
  // A block has queries, keys, values, the way out, an MLP of two products, and
  // two norms; the head is a product and its output. Masked tokens have the
  // embedding as output.
  const double width = bert.width();
  const double block = 4 * width * (width + 1) +
                       bert.hidden() * (2 * width + 1) + width + 4 * width;
  const double head = width * (width + 3) + bert.classes() * (width + 1);
  RequireParameters(
      path,
      (double{1} * bert.vocabulary() + bert.window() + bert.type_vocabulary() +
       4) * width +
          bert.layers() * block + head,
      errors);
}

// Blocks of each stage.
struct ResnetDepth {
  int depth;
  std::array<int, 4> blocks;
  bool has_bottlenecks;
};
constexpr ResnetDepth kResnetDepths[] = {
    {10, {1, 1, 1, 1}, false},  {14, {1, 1, 1, 1}, true},
    {18, {2, 2, 2, 2}, false},  {26, {2, 2, 2, 2}, true},
    {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true}};

// With the running statistics, which take as much memory.
double ResnetParameters(const v1::ResnetSpec& resnet,
                        const ResnetDepth& depth) {
  // A convolution and its norm.
  const auto convolution = [](double pixels, double in, double out) {
    return (pixels * in + 4) * out;
  };
  double filters = resnet.filters();
  double in = filters;
  double parameters = convolution(49, resnet.channels(), filters);
  for (const int blocks : depth.blocks) {
    const double out = depth.has_bottlenecks ? 4 * filters : filters;
    for (int i = 0; i < blocks; ++i) {
      // Only a stage's first block changes the size.
      if (in != out) parameters += convolution(1, in, out);
      parameters +=
          depth.has_bottlenecks
              ? convolution(1, in, filters) + convolution(9, filters, filters) +
                    convolution(1, filters, out)
              : convolution(9, in, filters) + convolution(9, filters, filters);
      in = out;
    }
    filters *= 2;
  }
  return parameters + (in + 1) * resnet.classes();
}

void CheckResnetDepth(const v1::ResnetSpec& resnet, SpecErrors& errors) {
  const std::string path = "train.model.resnet";
  const auto* const depth = std::find_if(
      std::begin(kResnetDepths), std::end(kResnetDepths),
      [&](const ResnetDepth& each) { return each.depth == resnet.depth(); });
  if (depth == std::end(kResnetDepths)) {
    errors.Add(absl::StrCat(
        path, ".depth must be one of 10, 14, 18, 26, 34, 50, 101, 152, got ",
        resnet.depth()));
    return;
  }
  RequireParameters(path, ResnetParameters(resnet, *depth), errors);
}

void CheckResnet(const v1::TrainProgram& train, SpecErrors& errors) {
  const std::string path = "train.model.resnet";
  const v1::ResnetSpec& resnet = train.model().resnet();
  CheckResnetDepth(resnet, errors);
  for (const auto& [name, size] :
       {std::pair("pixel_mean_permille", resnet.pixel_mean_permille_size()),
        std::pair("pixel_deviation_permille",
                  resnet.pixel_deviation_permille_size())}) {
    if (size == 0 || size == resnet.channels()) continue;
    errors.Add(absl::StrCat(path, ".", name, " must have a value for each of ",
                            path, ".channels (", resnet.channels(), "), got ",
                            size));
  }
  constexpr int kReduction = 32;
  const int group = resnet.norm_group();
  if (resnet.height() <= kReduction && resnet.width() <= kReduction &&
      group < 2) {
    errors.Add(absl::StrCat(
        path,
        ".norm_group must be 2 or more for images of at most 32x32, of "
        "which the last layers have one pixel, got ",
        group));
  }
  for (const auto& [name, batch] :
       {std::pair("global_batch", train.global_batch()),
        std::pair("micro_batch", train.micro_batch())}) {
    if (group == 0 || batch % group == 0) continue;
    errors.Add(absl::StrCat("train.", name, " must be a multiple of ", path,
                            ".norm_group (", group, "), got ", batch));
  }
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

void FillModel(v1::ModelSpec& model) {
  // From good values alone: a bad one is an error of its own, and of its own
  // only.
  if (model.has_gpt()) {
    v1::GptSpec& gpt = *model.mutable_gpt();
    if (gpt.sample_tokens() == 0 && gpt.window() > 0)
      gpt.set_sample_tokens(gpt.window());
  }
  if (model.has_llama()) {
    v1::LlamaSpec& llama = *model.mutable_llama();
    if (llama.sample_tokens() == 0 && llama.window() > 0)
      llama.set_sample_tokens(llama.window());
    if (llama.kv_heads() == 0)
      llama.set_kv_heads(std::clamp(llama.heads(), 1, 256));
    if (llama.hidden() == 0) {
      const int width = std::clamp(llama.width(), 1, 16384);
      llama.set_hidden((width * 8 / 3 + 7) / 8 * 8);
    }
  }
  if (model.has_bert()) {
    v1::BertSpec& bert = *model.mutable_bert();
    if (bert.sample_tokens() == 0 && bert.window() > 0)
      bert.set_sample_tokens(bert.window());
    if (bert.hidden() == 0)
      bert.set_hidden(4 * std::clamp(bert.width(), 1, 16384));
    if (bert.type_vocabulary() == 0)
      bert.set_type_vocabulary(bert.roberta() ? 1 : 2);
    if (!bert.has_padding()) bert.set_padding(bert.roberta() ? 1 : 0);
    if (bert.mask() == 0 && bert.vocabulary() > 1)
      bert.set_mask(bert.vocabulary() - 1);
  }
}

const char* ImageModelOf(const v1::ModelSpec& model) {
  if (model.has_cnn()) return "cnn";
  return model.has_resnet() ? "resnet" : nullptr;
}

void CheckModel(const v1::TrainProgram& train, SpecErrors& errors) {
  const v1::ModelSpec& model = train.model();
  if (const auto tokens = TokenModelOf(model))
    CheckSampleTokens(*tokens, errors);
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
    case v1::ModelSpec::kLlama:
      CheckLlama(model.llama(), errors);
      return;
    case v1::ModelSpec::kBert:
      CheckBert(model.bert(), errors);
      return;
    case v1::ModelSpec::kResnet:
      CheckResnet(train, errors);
      return;
    case v1::ModelSpec::kCustom:
    case v1::ModelSpec::MODEL_NOT_SET:
      return;
  }
}

}  // namespace ringmaster
