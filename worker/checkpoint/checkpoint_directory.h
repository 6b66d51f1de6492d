// The directory of a job's checkpoints: their names, and how they appear and
// disappear.
//
//   DIR/step-000000120/            a checkpoint
//   DIR/.tmp-step-000000120-4711/  one that process 4711 writes, or removes
//   DIR/.old-step-000000120-4711/  one about to be replaced, for a moment, on
//                                  file systems that cannot exchange two names
//
// A checkpoint appears and disappears by one rename, so a reader never sees
// half of one. A process that works in a temporary directory holds a flock on
// it, which ends with the process: this distinguishes leftovers of a dead
// writer from work of a live one. (Where a file system has no such locks, the
// process number does.)
// Fail points: checkpoint.rename, checkpoint.exchange (an error there means a
// file system that cannot exchange names).
#ifndef RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// "step-000000120". Requires step >= 0.
std::string CheckpointName(int64_t step);
// The inverse; nothing if `name` is not such a name.
std::optional<int64_t> StepOfCheckpointName(std::string_view name);

// A directory under construction that becomes a checkpoint, or disappears with
// this object.
class StagingDirectory {
 public:
  // Makes one in `directory`, which is created, with its parents, if it is
  // missing. Errors are FileError's, and INVALID_ARGUMENT for an empty path.
  [[nodiscard]] static absl::StatusOr<StagingDirectory> Create(
      const std::string& directory, int64_t step);
  ~StagingDirectory();
  StagingDirectory(StagingDirectory&& other) noexcept;
  StagingDirectory& operator=(StagingDirectory&&) = delete;

  std::string File(std::string_view name) const;
  // Gives it the name of a checkpoint, in place of one that has it already, and
  // makes that durable. Returns the new path.
  [[nodiscard]] absl::StatusOr<std::string> Publish();

 private:
  StagingDirectory(const std::string& directory, int64_t step);
  absl::Status Replace(const std::string& target) const;

  std::string directory_;
  int64_t step_;
  std::string path_;  // empty: nothing to remove
  UniqueFd lock_;
};

// Removes the checkpoint of `step` from `directory`.
[[nodiscard]] absl::Status RemoveCheckpoint(const std::string& directory,
                                            int64_t step);

// Removes what dead processes left in `directory`, which may be absent.
// Continues after an error and returns the first one.
[[nodiscard]] absl::Status RemoveAbandoned(const std::string& directory);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
