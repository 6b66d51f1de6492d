#include "common/optimizer/optimizer.h"

#include <cstdint>

#include "common/optimizer/adamw.h"
#include "common/optimizer/sgd.h"

namespace ringmaster {
namespace {

// Long enough (about 100 us) to claim a block for nothing, short enough for
// threads to end at about the same time.
constexpr int64_t kBlockElems = int64_t{1} << 16;

template <typename T>
absl::Span<T> Part(absl::Span<T> whole, int64_t begin, int64_t end) {
  if (whole.empty()) return whole;
  return whole.subspan(static_cast<size_t>(begin),
                       static_cast<size_t>(end - begin));
}

template <typename T>
OptimizerSlice<T> PartOf(const OptimizerSlice<T>& slice, int64_t begin,
                         int64_t end) {
  return {Part(slice.parameters, begin, end),
          Part(slice.gradients, begin, end),
          Part(slice.first_moment, begin, end),
          Part(slice.second_moment, begin, end),
          {Part(slice.from.parameters, begin, end),
           Part(slice.from.first_moment, begin, end),
           Part(slice.from.second_moment, begin, end)}};
}

}  // namespace

int MomentsOf(const OptimizerConfig& config) {
  if (config.kind == "adamw") return 2;
  return config.momentum == 0 ? 0 : 1;
}

bool DecaysWeights(const OptimizerConfig& config, int dims) {
  return dims >= 2 || !config.decay_matrices_only;
}

const OptimizerConfig& TrackingConfig() {
  static const OptimizerConfig& config =
      *new OptimizerConfig{.kind = "sgd", .weight_decay = 0};
  return config;
}

Update TrackingUpdate(const Update& update) {
  return {.step = update.step,
          .learning_rate = update.tracking_rate,
          .gradient_scale = update.statistic_scale,
          .decays = false};
}

template <typename T>
void ApplyOptimizer(const OptimizerConfig& config, const Update& update,
                    const OptimizerSlice<T>& slice) {
  if (update.tracking_rate != 0) {
    ApplySgd<T>(TrackingConfig(), TrackingUpdate(update), slice);
    return;
  }
  if (config.kind == "sgd") {
    ApplySgd<T>(config, update, slice);
  } else {
    ApplyAdamW<T>(config, update, slice);
  }
}

template <typename T>
void ApplyOptimizer(ThreadPool& pool, const OptimizerConfig& config,
                    const Update& update, const OptimizerSlice<T>& slice) {
  const auto count = static_cast<int64_t>(slice.parameters.size());
  pool.ParallelFor(count, kBlockElems, [&](int64_t begin, int64_t end) {
    ApplyOptimizer(config, update, PartOf(slice, begin, end));
  });
}

template void ApplyOptimizer<float>(const OptimizerConfig&, const Update&,
                                    const OptimizerSlice<float>&);
template void ApplyOptimizer<double>(const OptimizerConfig&, const Update&,
                                     const OptimizerSlice<double>&);
template void ApplyOptimizer<float>(ThreadPool&, const OptimizerConfig&,
                                    const Update&,
                                    const OptimizerSlice<float>&);
template void ApplyOptimizer<double>(ThreadPool&, const OptimizerConfig&,
                                     const Update&,
                                     const OptimizerSlice<double>&);

}  // namespace ringmaster
