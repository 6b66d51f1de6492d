// The directory of a job's checkpoints: their names, and how they appear and
// disappear.
//
//   DIR/step-000000120/                          a checkpoint
//   DIR/.tmp-step-000000120-HOST-RANDOM/         one that is being written or removed
//   DIR/.old-step-000000120-HOST-RANDOM/         one about to be replaced, for a moment,
//                                                on file systems that cannot exchange
//                                                two names
//   DIR/latest                                   a link to the newest complete one
//   DIR/best                                     a link to the one with the best
//                                                evaluation, if the job keeps that
//   DIR/.latest-HOST-RANDOM                      either link, before it gets its name
//
// A checkpoint appears and disappears by one rename, so a reader never sees
// half of one. RANDOM makes each name that of one writer, also where hosts share the
// directory.
// A writer holds a flock on its directory, which ends with its process. So leftovers of
// a dead writer are told from the work of a live one, but only where locks are seen:
// under the same kernel, which HOST names (the first part of its boot_id). A directory of
// another HOST, or on a file system without locks, is left alone until nothing in it
// has changed for kAbandonedAge. A link has no lock: one of this HOST is a leftover, and
// a live writer that misses its own makes another.
// Fail points: checkpoint.create (the directory is there and not yet locked),
// checkpoint.rename, checkpoint.exchange (an error there means a file system that cannot
// exchange names), checkpoint.aside (without exchange: the old one has lost its name, the
// new one has none yet), checkpoint.published, checkpoint.link and
// checkpoint.link_rename (before the link is made, and before it gets its name).
#ifndef RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

inline constexpr char kLatestLink[] = "latest";
inline constexpr char kBestLink[] = "best";

// No write of a checkpoint pauses for as long: a directory of somebody whose locks are
// not seen here is a leftover after that.
inline constexpr absl::Duration kAbandonedAge = absl::Hours(24);

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

// Points `directory`/latest to the checkpoint of `step`, durably and by one rename. What
// has that name and is no link stays.
//   FAILED_PRECONDITION  it is no link
// and FileError's: PERMISSION_DENIED on a file system without links.
[[nodiscard]] absl::Status LinkLatest(const std::string& directory,
                                      int64_t step);
// The same of `directory`/best.
[[nodiscard]] absl::Status LinkBest(const std::string& directory, int64_t step);

// Returns the step of the checkpoint that `directory`/best names; nothing if there is no
// such link.
std::optional<int64_t> StepOfBest(const std::string& directory);

// Returns the path that the link at `path` leads to if `path` is one of these two, else
// `path`.
std::string FollowLink(const std::string& path);

// A `.tmp-` or `.old-` directory: somebody works in it, or did before they died.
struct UnfinishedCheckpoint {
  std::string path;
  // No live process works in it, as far as that can be seen from here: it is what
  // RemoveAbandoned takes.
  bool is_abandoned = false;
  int64_t size_bytes = 0;  // of its files, as far as they can be seen
  // When it or something in it changed; the future if that cannot be seen.
  absl::Time last_change;
};

// Returns those in `directory`, by name; none if it is absent. `now` is the time that
// files are dated by. Errors are FileError's.
[[nodiscard]] absl::StatusOr<std::vector<UnfinishedCheckpoint>> ListUnfinished(
    const std::string& directory, absl::Time now = absl::Now());

// Removes what dead processes left in `directory`, which may be absent, and nothing that
// only looks like it: a directory called `.latest-...` is somebody else's. `now` is the
// time that files are dated by. Continues after an error and returns the first one.
[[nodiscard]] absl::Status RemoveAbandoned(const std::string& directory,
                                           absl::Time now = absl::Now());

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
