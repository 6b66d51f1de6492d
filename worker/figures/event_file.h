// EventFile: the figures of one run of a training job, as TensorBoard reads
// them from a directory.
//
// The file is called events.out.tfevents.<unix seconds>.<host>, with ".1",
// ".2"... after it where that name is taken. TensorBoard reads the files of a
// directory by name, so those of a resumed job continue each other. A resumed
// job starts a new file, and its first records make TensorBoard forget the
// steps that will be trained again. See event_record.h for the format,
// AppendFile for what happens when the disk is full.
//
// The files of a directory take no more than kMaxBytes together. With the first
// kBytesPerRate bytes they have every step, with the next as many every second, then
// every fourth, and so on: TensorBoard itself shows a thousand points of a curve.
// Thread-compatible.
#ifndef RINGMASTER_WORKER_FIGURES_EVENT_FILE_H_
#define RINGMASTER_WORKER_FIGURES_EVENT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/figures/append_file.h"
#include "worker/figures/event_record.h"

namespace ringmaster {

class EventFile {
 public:
  // Some 45,000 steps.
  static constexpr int64_t kBytesPerRate = int64_t{32} << 20;
  // No job has steps enough for this; evaluations and samples may get there.
  static constexpr int64_t kMaxBytes = int64_t{1} << 30;

  // Makes the file in `directory`, which exists. Training goes on after
  // `resume_step` (0: from the start). The errors are AppendFile's.
  [[nodiscard]] static absl::StatusOr<EventFile> Create(
      const std::string& directory, const std::string& host,
      double unix_seconds, int64_t resume_step,
      int64_t bytes_per_rate = kBytesPerRate, int64_t max_bytes = kMaxBytes);

  // Returns true if the figures of `step` are to be appended.
  [[nodiscard]] bool Takes(int64_t step) const;
  // One record; nothing reaches the disk before Flush. Nothing is appended once the
  // files are full.
  void AppendScalars(double unix_seconds, int64_t step,
                     std::span<const ScalarFigure> figures);
  void AppendText(double unix_seconds, int64_t step, std::string_view tag,
                  std::string_view markdown);
  // Fails at most once; see AppendFile.
  [[nodiscard]] absl::Status Flush() { return file_.Flush(); }

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] size_t buffered_bytes() const { return file_.buffered_bytes(); }

 private:
  EventFile(AppendFile file, int64_t bytes_before, int64_t bytes_per_rate,
            int64_t max_bytes)
      : file_(std::move(file)),
        bytes_before_(bytes_before),
        bytes_per_rate_(bytes_per_rate),
        max_bytes_(max_bytes) {}
  // Of all files in the directory.
  [[nodiscard]] int64_t total_bytes() const;
  void AppendRecord(std::string_view content);

  AppendFile file_;
  int64_t bytes_before_;  // in the files that were there before this one
  int64_t bytes_per_rate_;
  int64_t max_bytes_;
  std::string record_;  // kept for its capacity
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_EVENT_FILE_H_
