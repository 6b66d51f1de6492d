#include "worker/nn/cnn_layout.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int64_t kMaxStages = 16;

// Before a ReLU, weights start with the variance that keeps a signal's size: 2 /
// fan_in (He et al., "Delving Deep into Rectifiers", 2015).
Initializer BeforeRelu(int64_t fan_in) {
  return Initializer::Uniform(std::sqrt(6.0 / static_cast<double>(fan_in)));
}

// Logits start small, for a first loss near ln(classes).
Initializer OfOutput(int64_t fan_in) {
  return Initializer::Uniform(std::sqrt(0.1 / static_cast<double>(fan_in)));
}

}  // namespace

absl::StatusOr<CnnSettings> ReadCnnSettings(const ModelConfig& config) {
  // Bounds far above any use, which keep sizes from overflowing.
  SettingsReader reader(config);
  CnnSettings settings;
  settings.height = reader.Int("height", settings.height, {1, 4096});
  settings.width = reader.Int("width", settings.width, {1, 4096});
  settings.channels = reader.Int("channels", settings.channels, {1, 64});
  settings.classes = reader.Int("classes", settings.classes, {1, 1 << 20});
  settings.filters = reader.Ints("filters", settings.filters, {1, 4096});
  settings.hidden_dim =
      reader.Int("hidden_dim", settings.hidden_dim, {1, 65536});
  RETURN_IF_ERROR(reader.Finish());
  const auto stages = static_cast<int64_t>(settings.filters.size());
  if (stages < 1 || stages > kMaxStages) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.cnn.filters has ", stages,
                     " entries, but must have 1 to ", kMaxStages));
  }
  if (settings.height >> stages == 0 || settings.width >> stages == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.cnn.filters has ", stages,
        " entries, each of which halves the image: it must be at least ",
        int64_t{1} << stages, "x", int64_t{1} << stages, " pixels, but is ",
        settings.height, "x", settings.width));
  }
  return settings;
}

ModelInput CnnInput(const CnnSettings& settings) {
  return {.shape = {.pixels = settings.pixels(),
                    .height = settings.height,
                    .width = settings.width},
          .vocabulary = settings.classes};
}

CnnLayout LayOutCnn(const CnnSettings& settings) {
  CnnLayout layout;
  const auto add = [&](const std::string& name, const Shape& weight,
                       Initializer init, int64_t out) {
    layout.specs.push_back({name + ".weight", weight, init});
    layout.specs.push_back({name + ".bias", {out}, Initializer::Constant(0)});
    return static_cast<int>(layout.specs.size()) - 2;
  };
  CnnStage next = {.height = settings.height,
                   .width = settings.width,
                   .out = settings.channels};
  int64_t features = 0;
  for (const int64_t filters : settings.filters) {
    next.in = next.out;
    next.out = filters;
    layout.stages.push_back(next);
    features = next.pooled_elems();
    next.height /= 2;
    next.width /= 2;
  }
  const int64_t hidden = settings.hidden_dim;
  const int output = add("output", {settings.classes, hidden}, OfOutput(hidden),
                         settings.classes);
  layout.output = {output, output + 1, hidden, settings.classes};
  const int first =
      add("hidden", {hidden, features}, BeforeRelu(features), hidden);
  layout.hidden = {first, first + 1, features, hidden};
  for (size_t i = layout.stages.size(); i-- > 0;) {
    CnnStage& stage = layout.stages[i];
    stage.weight = add(
        absl::StrCat("conv.", i), {stage.out, kCnnKernel, kCnnKernel, stage.in},
        BeforeRelu(kCnnKernel * kCnnKernel * stage.in), stage.out);
    stage.bias = stage.weight + 1;
  }
  return layout;
}

double CnnFlopsPerSample(const CnnLayout& layout) {
  double forward = 0;
  for (const CnnStage& stage : layout.stages) {
    forward += 2.0 * kCnnKernel * kCnnKernel *
               static_cast<double>(stage.in * stage.convolved_elems());
  }
  for (const CnnLinear& linear : {layout.hidden, layout.output})
    forward += 2.0 * static_cast<double>(linear.in * linear.out);
  // Going back, as much for the gradients of weights and of inputs each, except
  // for the pixels, whose gradient nobody needs.
  const CnnStage& first = layout.stages.front();
  return 3 * forward -
         2.0 * kCnnKernel * kCnnKernel *
             static_cast<double>(first.in * first.convolved_elems());
}

}  // namespace ringmaster
