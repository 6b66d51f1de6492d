#include "worker/train/step/class_counts.h"

#include "common/status/check.h"

namespace ringmaster {
namespace {

constexpr int kTop = 5;

}  // namespace

void ClassCounts::Add(absl::Span<const int32_t> targets,
                      absl::Span<const ClassOutcome> outcomes) {
  RM_CHECK(targets.size() == outcomes.size(), "each sample has an outcome");
  for (size_t i = 0; i < targets.size(); ++i) {
    ++At(kActual, targets[i]);
    ++At(kPredicted, outcomes[i].predicted);
    if (outcomes[i].rivals == 0) ++At(kRight, targets[i]);
    ++words_[words_.size() - 2];
    if (outcomes[i].rivals < kTop) ++words_.back();
  }
}

std::optional<double> ClassCounts::Top5Accuracy() const {
  const int64_t samples = words_[words_.size() - 2];
  if (classes_ <= kTop || samples == 0) return std::nullopt;
  return static_cast<double>(words_.back()) / static_cast<double>(samples);
}

std::optional<double> ClassCounts::MacroF1() const {
  int64_t present = 0;
  double sum = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    const int64_t either = At(kActual, c) + At(kPredicted, c);
    if (either == 0) continue;
    ++present;
    sum += 2 * static_cast<double>(At(kRight, c)) / static_cast<double>(either);
  }
  if (present == 0) return std::nullopt;
  return sum / static_cast<double>(present);
}

}  // namespace ringmaster
