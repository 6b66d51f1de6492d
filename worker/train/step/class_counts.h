// ClassCounts measures how well classes are told apart, beyond the share of
// right ones: from whole numbers, so that sums over ranks are exact.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_TRAIN_STEP_CLASS_COUNTS_H_
#define RINGMASTER_WORKER_TRAIN_STEP_CLASS_COUNTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "worker/nn/class_outcome.h"

namespace ringmaster {

class ClassCounts {
 public:
  explicit ClassCounts(int64_t classes)
      : classes_(classes), words_(static_cast<size_t>(3 * classes + 2)) {}

  // Adds samples with these classes. Requires as many outcomes as targets.
  void Add(absl::Span<const int32_t> targets,
           absl::Span<const ClassOutcome> outcomes);

  // All counts. Those of several are those of all of their samples once these
  // are added up.
  absl::Span<int64_t> words() { return absl::MakeSpan(words_); }

  // The share of samples whose class is among the five most probable ones;
  // nothing for five classes or fewer, or without samples.
  std::optional<double> Top5Accuracy() const;
  // The mean over classes of the harmonic mean of precision and recall. Classes
  // that no sample has, and none is predicted to have, do not count.
  std::optional<double> MacroF1() const;

 private:
  // By class: samples of it, samples predicted to be of it, and both; then all
  // samples, and those with the class among five.
  enum Count { kActual, kPredicted, kRight };
  int64_t& At(Count count, int64_t c) {
    return words_[static_cast<size_t>(count * classes_ + c)];
  }
  int64_t At(Count count, int64_t c) const {
    return words_[static_cast<size_t>(count * classes_ + c)];
  }

  int64_t classes_;
  std::vector<int64_t> words_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STEP_CLASS_COUNTS_H_
