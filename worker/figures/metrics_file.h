// MetricsFile: the figures of a training job as JSON, an object a line, for
// programs: `jq`, or pandas.read_json(path, lines=True).
//
// Every line begins with "step" and "kind", and has "time" (seconds since
// 1970). A number that is NaN or infinite is null, and so is one that is not
// known. The further keys, by kind:
//   step        loss, gradient_norm, learning_rate, tokens_per_second,
//               samples_per_second, model_flops_utilization,
//               data_wait_seconds, forward_seconds, backward_seconds,
//               communication_wait_seconds, commit_seconds, optimizer_seconds,
//               checkpoint_snapshot_seconds, total_seconds,
//               wire_payload_bytes, wire_theory_bytes, world_size, generation:
//               see StepRecord
//   evaluation  loss, accuracy (in [0, 1]) and, of classes, top5_accuracy and
//               macro_f1 on held-out samples
//   sample      prompt and text, the model's continuation; what is not UTF-8
//               is U+FFFD
//   checkpoint  duration_seconds until it was on the disk, and its bytes
//
// Lines reach the disk at Flush, by one write(2) for all buffered lines: a
// crash loses the last lines and may cut one, which the next Open removes. See
// AppendFile for what happens when the disk is full. Thread-compatible; one
// writer at a time.
//
// A file of kMaxBytes is renamed to FILE.1, in place of the one that had this
// name, so that both have at least the newest lines of kMaxBytes.
#ifndef RINGMASTER_WORKER_FIGURES_METRICS_FILE_H_
#define RINGMASTER_WORKER_FIGURES_METRICS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/figures/append_file.h"
#include "worker/figures/step_record.h"

namespace ringmaster {

class MetricsFile {
 public:
  // Some 400,000 steps.
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;

  // Opens or makes the file at `path` for a job that trains on after
  // `resume_step` (0: from the start). So that the file tells one story, the
  // lines of later steps and a cut last line are removed: the file continues
  // before the first of them, and lines to keep that stood behind it (a
  // checkpoint's line may come late) are appended again. It is taken over from
  // its last writer, see AppendFile::TakeOver. A line that does not begin with
  // "step" stays. If nothing of it is to be kept, FILE.1 takes its place. The
  // errors are AppendFile's.
  [[nodiscard]] static absl::StatusOr<MetricsFile> Open(
      const std::string& path, int64_t resume_step,
      int64_t max_bytes = kMaxBytes);

  // One line; `unix_seconds` is its "time".
  void AppendStep(double unix_seconds, const StepRecord& record);
  void AppendEvaluation(double unix_seconds, int64_t step,
                        const EvaluationRecord& record);
  void AppendSample(double unix_seconds, int64_t step, std::string_view prompt,
                    std::string_view text);
  void AppendCheckpoint(double unix_seconds, int64_t step,
                        absl::Duration duration, int64_t bytes);

  // Fails at most once; see AppendFile.
  [[nodiscard]] absl::Status Flush();

  [[nodiscard]] size_t buffered_bytes() const { return file_.buffered_bytes(); }
  // The lines that Open removed.
  [[nodiscard]] int64_t removed_lines() const { return removed_lines_; }

  // The last steps of which there are lines of a kind, buffered ones included; 0:
  // none.
  struct LastSteps {
    int64_t step = 0;
    int64_t evaluation = 0;
    int64_t sample = 0;
  };
  [[nodiscard]] const LastSteps& last() const { return last_; }

 private:
  MetricsFile(AppendFile file, int64_t removed_lines, const LastSteps& last,
              int64_t max_bytes)
      : file_(std::move(file)),
        removed_lines_(removed_lines),
        last_(last),
        max_bytes_(max_bytes) {}

  AppendFile file_;
  int64_t removed_lines_;
  LastSteps last_;
  int64_t max_bytes_;
  std::string line_;  // kept for its capacity
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_METRICS_FILE_H_
