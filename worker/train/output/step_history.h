// StepHistory keeps the records of a job's last steps, so that a rank that comes
// to write the figures can add what the one before it had not written.
//
// The writer writes at least every kMostUnwrittenSteps steps, before it takes part
// in the next one: a history of that length, and one step in which it died, has all
// that its file may lack. Every rank keeps one.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_TRAIN_OUTPUT_STEP_HISTORY_H_
#define RINGMASTER_WORKER_TRAIN_OUTPUT_STEP_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "worker/figures/step_figures_log.h"
#include "worker/figures/step_record.h"

namespace ringmaster {

class StepHistory {
 public:
  static constexpr size_t kMostSteps =
      size_t{StepFiguresLog::kMostUnwrittenSteps} + 1;
  // The words of a record that travels.
  static constexpr size_t kRecordWords = 20;

  // Keeps `record`. Records of the same step and later ones are dropped, since
  // these steps are made again, and all are if a step between them is missing.
  void Add(const StepRecord& record);
  // Drops the records of later steps.
  void ForgetAfter(int64_t step);

  // The newest step, or 0; and the number of records, which are of consecutive
  // steps.
  [[nodiscard]] int64_t last_step() const {
    return records_.empty() ? 0 : records_.back().step;
  }
  [[nodiscard]] size_t size() const { return records_.size(); }
  // Returns true if the loss of the newest step is known.
  [[nodiscard]] bool is_whole() const {
    return !records_.empty() && !records_.back().is_partial;
  }
  // Returns the records of the last `count` steps, at most size().
  [[nodiscard]] std::vector<StepRecord> Last(size_t count) const;

 private:
  std::deque<StepRecord> records_;
};

// Records as words for the wire, bit for bit, and back; `words` has
// StepHistory::kRecordWords a record.
void ToWords(std::span<const StepRecord> records, std::span<int64_t> words);
[[nodiscard]] std::vector<StepRecord> FromWords(std::span<const int64_t> words);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_OUTPUT_STEP_HISTORY_H_
