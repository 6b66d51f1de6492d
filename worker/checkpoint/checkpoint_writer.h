// CheckpointWriter writes checkpoints beside the training: the trainer pays for
// one copy of the arenas, and a thread does the rest.
//
// Guarantees: Snapshot never waits for the disk. If a write is still under way,
// it skips the new snapshot, and a result says so. A failed write (disk full,
// not permitted, fail points) removes its temporary files, leaves older
// checkpoints alone, and does not prevent the next attempt.
// Not guaranteed: that a write begun is completed. Flush waits for that; the
// destructor gives up an unfinished write, and takes as long as one call to the
// disk.
// Memory: one buffer of the arenas' size, allocated at the start.
// Thread-safety: thread-safe.
// Ownership: the plan and the clock must outlive it.
// Example:
//   ASSIGN_OR_RETURN(auto writer, CheckpointWriter::Create(options));
//   writer->Snapshot(contents);              // after step 120
//   for (CheckpointResult& result : writer->TakeResults()) Report(result);
//   RETURN_IF_ERROR(writer->Flush(deadline));  // at the end of the job
#ifndef RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_
#define RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/plan/plan.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/disk_progress.h"

namespace ringmaster {

// The outcome of one Snapshot.
struct CheckpointResult {
  int64_t step = 0;
  // OK if it is complete and durable; UNAVAILABLE with is_skipped if an earlier
  // one was still being written; else the error of WriteCheckpoint.
  absl::Status status;
  bool is_skipped = false;
  absl::Duration duration;  // of the write
  int64_t bytes = 0;
  std::string path;  // if status is OK
  // The reason why an older checkpoint could not be removed.
  absl::Status removal;
  bool is_best = false;  // as the contents said
  // See WrittenCheckpoint; the first time only.
  absl::Status link;
};

class CheckpointWriter {
 public:
  struct Options {
    std::string directory;
    const Plan* plan = nullptr;
    // The number of moments that snapshots may have: 2 for AdamW.
    int moment_count = 2;
    int keep = 0;              // as in CheckpointWriteOptions
    std::string protect = "";  // likewise
    // Counts the bytes written; may be null, else outlives the writer.
    DiskProgress* progress = nullptr;
    Clock* clock = &Clock::Real();
  };

  // Removes what dead writers left in the directory, allocates, and starts the
  // thread. Only the first write finds out if the directory cannot be written.
  //   RESOURCE_EXHAUSTED  there is no memory for the buffer
  // and FileError's, if leftovers cannot be removed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      const Options& options);

  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies `contents` and lets the thread write them; returns false if it skips
  // them. `contents.plan` must be the options', and have no more moments.
  bool Snapshot(const CheckpointContents& contents);

  // The results since the last call, oldest first. At most kMaxResults are
  // kept; older ones go.
  static constexpr size_t kMaxResults = 256;
  std::vector<CheckpointResult> TakeResults();

  // Waits until no write is under way or about to begin.
  //   DEADLINE_EXCEEDED  the deadline came first; the write goes on
  [[nodiscard]] absl::Status Flush(MonotonicTime deadline);

 private:
  class Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_WRITER_H_
