#include "worker/nn/resnet_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int kStages = 4;
constexpr int64_t kStemKernel = 7;
// By which a network of whatever depth divides height and width.
constexpr int64_t kReduction = 32;
// Channels of a bottleneck's output for each of its 3x3 convolution.
constexpr int64_t kExpansion = 4;
// The part of the way to a step's statistics that the running ones go.
constexpr double kTrackingRate = 0.1;

// He et al., "Deep Residual Learning for Image Recognition" (2015), table 1;
// 10 and 14 are the least that have all stages.
struct Depth {
  int64_t depth;
  std::array<int, kStages> blocks;
  bool has_bottlenecks;
};
constexpr Depth kDepths[] = {
    {10, {1, 1, 1, 1}, false},  {14, {1, 1, 1, 1}, true},
    {18, {2, 2, 2, 2}, false},  {26, {2, 2, 2, 2}, true},
    {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true}};

const Depth* DepthOf(int64_t depth) {
  for (const Depth& each : kDepths) {
    if (each.depth == depth) return &each;
  }
  return nullptr;
}

int64_t Reduced(int64_t size) { return (size + kReduction - 1) / kReduction; }

// ImageNet's, in thousandths of the largest byte; and for images of other
// channels about the same.
std::vector<int64_t> DefaultMean(int64_t channels) {
  if (channels == 3) return {485, 456, 406};
  return std::vector<int64_t>(static_cast<size_t>(channels), 449);
}
std::vector<int64_t> DefaultDeviation(int64_t channels) {
  if (channels == 3) return {229, 224, 225};
  return std::vector<int64_t>(static_cast<size_t>(channels), 226);
}

absl::Status CheckOnePerChannel(const char* name,
                                const std::vector<int64_t>& values,
                                int64_t channels) {
  if (static_cast<int64_t>(values.size()) == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.resnet.", name, " has ", values.size(),
      " entries, but must have one for each of ", channels, " channels"));
}

// Writes the layout: statistics come before all that is trained.
class LayoutWriter {
 public:
  explicit LayoutWriter(const ResnetSettings& settings)
      : settings_(settings),
        depth_(*DepthOf(settings.depth)),
        height_(settings.height),
        width_(settings.width),
        channels_(settings.channels) {}

  ResnetLayout Write() {
    PlaceConvs();
    // In the order of execution, in which the forward pass finishes them.
    AddStatistics(layout_.stem);
    for (ResnetBlock& block : layout_.blocks) {
      for (ResnetConv& conv : block.convs) AddStatistics(conv);
      if (block.downsample) AddStatistics(*block.downsample);
    }
    AddHead();
    for (auto block = layout_.blocks.rbegin(); block != layout_.blocks.rend();
         ++block)
      AddBlock(*block);
    AddConv(layout_.stem, /*gamma=*/1);
    return std::move(layout_);
  }

 private:
  // The convolution of what is there; it is what is there then.
  ResnetConv Place(std::string name, std::string norm, int64_t out,
                   int64_t kernel, int64_t stride) {
    ResnetConv conv;
    conv.name = std::move(name);
    conv.norm = std::move(norm);
    conv.one = {1, height_, width_, channels_, out, kernel, stride};
    conv.norm_group = settings_.norm_group;
    height_ = conv.one.out_height();
    width_ = conv.one.out_width();
    channels_ = out;
    return conv;
  }

  void PlaceConvs() {
    layout_.stem = Place("conv1", "bn1", settings_.filters, kStemKernel, 2);
    layout_.pool_one = {1, height_, width_, channels_};
    height_ = (height_ + 1) / 2;
    width_ = (width_ + 1) / 2;
    for (int stage = 0; stage < kStages; ++stage) {
      for (int i = 0; i < depth_.blocks[static_cast<size_t>(stage)]; ++i)
        PlaceBlock(stage, i);
    }
    layout_.mean_one = {1, height_, width_, channels_};
    layout_.classes = settings_.classes;
  }

  // The first block of a stage but the first halves height and width: where its
  // kernel has 3x3 pixels, as in torchvision and unlike He et al.
  void PlaceBlock(int stage, int index) {
    const std::string block = absl::StrCat("layer", stage + 1, ".", index, ".");
    const int64_t filters = settings_.filters << stage;
    const int64_t stride = stage > 0 && index == 0 ? 2 : 1;
    const int64_t out = depth_.has_bottlenecks ? kExpansion * filters : filters;
    const bool is_resized = stride != 1 || channels_ != out;
    const auto [height, width, channels] =
        std::array<int64_t, 3>{height_, width_, channels_};
    ResnetBlock& to = layout_.blocks.emplace_back();
    const auto add = [&](int64_t channels_out, int64_t kernel, int64_t by) {
      const size_t number = to.convs.size() + 1;
      to.convs.push_back(Place(absl::StrCat(block, "conv", number),
                               absl::StrCat(block, "bn", number), channels_out,
                               kernel, by));
    };
    if (depth_.has_bottlenecks) {
      add(filters, 1, 1);
      add(filters, 3, stride);
      add(out, 1, 1);
    } else {
      add(filters, 3, stride);
      add(filters, 3, 1);
    }
    if (!is_resized) return;
    height_ = height;
    width_ = width;
    channels_ = channels;
    to.downsample = Place(absl::StrCat(block, "downsample.0"),
                          absl::StrCat(block, "downsample.1"), out, 1, stride);
  }

  int Add(std::string name, Shape shape, Initializer init,
          double tracking_rate = 0) {
    layout_.specs.push_back(
        {std::move(name), std::move(shape), init, tracking_rate});
    return static_cast<int>(layout_.specs.size()) - 1;
  }

  void AddStatistics(ResnetConv& conv) {
    conv.running_mean = Add(conv.norm + ".running_mean", {conv.one.out},
                            Initializer::Constant(0), kTrackingRate);
    conv.running_variance = Add(conv.norm + ".running_var", {conv.one.out},
                                Initializer::Constant(1), kTrackingRate);
  }

  void AddHead() {
    // As torch.nn.Linear.
    const Initializer init =
        Initializer::Uniform(1 / std::sqrt(static_cast<double>(channels_)));
    layout_.fc_weight = Add("fc.weight", {settings_.classes, channels_}, init);
    layout_.fc_bias = Add("fc.bias", {settings_.classes}, init);
  }

  void AddBlock(ResnetBlock& block) {
    for (size_t i = block.convs.size(); i-- > 0;) {
      const bool is_last = i + 1 == block.convs.size();
      AddConv(block.convs[i], is_last && settings_.zero_init ? 0 : 1);
    }
    if (block.downsample) AddConv(*block.downsample, 1);
  }

  void AddConv(ResnetConv& conv, double gamma) {
    conv.gamma = Add(conv.norm + ".weight", {conv.one.out},
                     Initializer::Constant(gamma));
    conv.beta =
        Add(conv.norm + ".bias", {conv.one.out}, Initializer::Constant(0));
    // The variance that keeps the size of a gradient on its way back (He et al.,
    // "Delving Deep into Rectifiers", 2015).
    const auto fan_out =
        static_cast<double>(conv.one.kernel * conv.one.kernel * conv.one.out);
    conv.weight =
        Add(conv.name + ".weight",
            {conv.one.out, conv.one.in, conv.one.kernel, conv.one.kernel},
            Initializer::Normal(std::sqrt(2 / fan_out)));
  }

  const ResnetSettings& settings_;
  const Depth& depth_;
  int64_t height_;
  int64_t width_;
  int64_t channels_;
  ResnetLayout layout_;
};

double ConvFlops(const ResnetConv& conv) {
  return 2.0 * static_cast<double>(conv.one.out_pixels()) *
         static_cast<double>(conv.one.weight_elems());
}

}  // namespace

absl::StatusOr<ResnetSettings> ReadResnetSettings(const ModelConfig& config) {
  SettingsReader reader(config);
  ResnetSettings settings;
  settings.depth = reader.Int("depth", settings.depth, {10, 152});
  settings.height = reader.Int("height", settings.height, {1, 4096});
  settings.width = reader.Int("width", settings.width, {1, 4096});
  settings.channels =
      reader.Int("channels", settings.channels, {1, PixelScales::kMaxChannels});
  settings.classes = reader.Int("classes", settings.classes, {1, 1 << 20});
  settings.filters = reader.Int("filters", settings.filters, {1, 1024});
  settings.norm_group =
      reader.Int("norm_group", settings.norm_group, {0, 1 << 20});
  settings.zero_init = reader.Int("zero_init", 0, {0, 1}) == 1;
  const std::vector<int64_t> mean = reader.Ints(
      "pixel_mean_permille", DefaultMean(settings.channels), {0, 1000});
  const std::vector<int64_t> deviation =
      reader.Ints("pixel_deviation_permille",
                  DefaultDeviation(settings.channels), {1, 1000});
  RETURN_IF_ERROR(reader.Finish());
  if (DepthOf(settings.depth) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.resnet.depth is ", settings.depth,
                     ", but must be one of 10, 14, 18, 26, 34, 50, 101, 152"));
  }
  RETURN_IF_ERROR(
      CheckOnePerChannel("pixel_mean_permille", mean, settings.channels));
  RETURN_IF_ERROR(CheckOnePerChannel("pixel_deviation_permille", deviation,
                                     settings.channels));
  if (Reduced(settings.height) * Reduced(settings.width) == 1 &&
      settings.norm_group < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.resnet.norm_group is ", settings.norm_group,
        ", but must be 2 or more for images of ", settings.height, "x",
        settings.width,
        " pixels, of which the last layers have one: its mean over one sample "
        "would be the sample itself"));
  }
  settings.pixel_scales.channels = settings.channels;
  for (size_t i = 0; i < mean.size(); ++i) {
    const double center = static_cast<double>(mean[i]) / 1000;
    const double unit = static_cast<double>(deviation[i]) / 1000;
    settings.pixel_scales.factor[i] = static_cast<float>(1 / (255 * unit));
    settings.pixel_scales.summand[i] = static_cast<float>(-center / unit);
  }
  return settings;
}

ModelInput ResnetInput(const ResnetSettings& settings) {
  return {.shape = {.pixels = settings.pixels() * settings.channels,
                    .height = settings.height,
                    .width = settings.width},
          .vocabulary = settings.classes};
}

ResnetLayout LayOutResnet(const ResnetSettings& settings) {
  return LayoutWriter(settings).Write();
}

double ResnetFlopsPerSample(const ResnetLayout& layout) {
  double forward =
      ConvFlops(layout.stem) +
      2.0 * static_cast<double>(layout.mean_one.channels * layout.classes);
  for (const ResnetBlock& block : layout.blocks) {
    for (const ResnetConv& conv : block.convs) forward += ConvFlops(conv);
    if (block.downsample) forward += ConvFlops(*block.downsample);
  }
  // Going back, as much for the gradients of weights and of inputs each, except
  // for the pixels, whose gradient nobody needs.
  return 3 * forward - ConvFlops(layout.stem);
}

}  // namespace ringmaster
