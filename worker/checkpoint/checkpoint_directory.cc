#include "worker/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0755;
constexpr absl::string_view kNamePrefix = "step-";
constexpr absl::string_view kTemporaryPrefix = ".tmp-";
constexpr absl::string_view kReplacedPrefix = ".old-";

std::string Join(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

// The name of this process's work on the checkpoint of `step`.
std::string WorkName(absl::string_view prefix, int64_t step) {
  return absl::StrCat(prefix, CheckpointName(step), "-", getpid());
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? FileError("remove", path, error.value()) : absl::OkStatus();
}

// mkdir -p, each new name durable as far as we may say so to its parent.
absl::Status CreateDirectories(const fs::path& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return absl::OkStatus();
  RETURN_IF_ERROR(CreateDirectories(path.parent_path()));
  if (fs::create_directory(path, error)) {
    const fs::path parent = path.parent_path();
    SyncDirectory(parent.empty() ? "." : parent.string()).IgnoreError();
  }
  return error ? FileError("create", path.string(), error.value())
               : absl::OkStatus();
}

UniqueFd OpenDirectory(const std::string& path) {
  return UniqueFd(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Returns true if no live process works in the directory at `path`.
bool IsAbandoned(const std::string& path) {
  const UniqueFd fd = OpenDirectory(path);
  if (!fd.is_open()) return false;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  int pid = 0;
  const absl::string_view digits =
      absl::string_view(path).substr(path.rfind('-') + 1);
  if (!absl::SimpleAtoi(digits, &pid) || pid <= 0) return true;
  return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
}

// Puts an abandoned `.old-` directory back if nothing took its place.
absl::Status RestoreOrRemove(const std::string& directory,
                             absl::string_view name) {
  const std::string path = Join(directory, name);
  absl::string_view original = name.substr(kReplacedPrefix.size());
  original = original.substr(0, original.rfind('-'));
  const std::string target = Join(directory, original);
  if (StepOfCheckpointName({original.data(), original.size()}).has_value() &&
      access(target.c_str(), F_OK) != 0 &&
      rename(path.c_str(), target.c_str()) == 0) {
    return SyncDirectory(directory);
  }
  return RemoveTree(path);
}

}  // namespace

std::string CheckpointName(int64_t step) {
  return absl::StrFormat("%s%09d", kNamePrefix, step);
}

std::optional<int64_t> StepOfCheckpointName(std::string_view name) {
  absl::string_view text(name.data(), name.size());
  int64_t step = 0;
  if (!absl::ConsumePrefix(&text, kNamePrefix) ||
      !absl::SimpleAtoi(text, &step) || step < 0 ||
      CheckpointName(step) != name) {
    return std::nullopt;
  }
  return step;
}

StagingDirectory::StagingDirectory(const std::string& directory, int64_t step)
    : directory_(directory),
      step_(step),
      path_(Join(directory, WorkName(kTemporaryPrefix, step))) {}

absl::StatusOr<StagingDirectory> StagingDirectory::Create(
    const std::string& directory, int64_t step) {
  if (directory.empty())
    return absl::InvalidArgumentError("the directory of checkpoints is empty");
  RETURN_IF_ERROR(CreateDirectories(directory));
  StagingDirectory staging(directory, step);
  // One of this name is a dead process's that had our number.
  if (access(staging.path_.c_str(), F_OK) == 0 && IsAbandoned(staging.path_))
    RETURN_IF_ERROR(RemoveTree(staging.path_));
  if (mkdir(staging.path_.c_str(), kDirectoryMode) != 0) {
    const absl::Status status = FileError("create", staging.path_, errno);
    staging.path_.clear();
    return status;
  }
  staging.lock_ = OpenDirectory(staging.path_);
  if (!staging.lock_.is_open()) return FileError("open", staging.path_, errno);
  (void)flock(staging.lock_.get(), LOCK_EX | LOCK_NB);  // see IsAbandoned
  return staging;
}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept
    : directory_(std::move(other.directory_)),
      step_(other.step_),
      path_(std::exchange(other.path_, "")),
      lock_(std::move(other.lock_)) {}

StagingDirectory::~StagingDirectory() {
  // After an error the next start tries again (RemoveAbandoned).
  if (!path_.empty()) RemoveTree(path_).IgnoreError();
}

std::string StagingDirectory::File(std::string_view name) const {
  return Join(path_, absl::string_view(name.data(), name.size()));
}

absl::StatusOr<std::string> StagingDirectory::Publish() {
  RETURN_IF_ERROR(SyncDirectory(path_));
  const std::string target = Join(directory_, CheckpointName(step_));
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.rename"), target));
  if (rename(path_.c_str(), target.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST)
      return FileError("create", target, errno);
    RETURN_IF_ERROR(Replace(target));
  }
  RETURN_IF_ERROR(SyncDirectory(directory_));
  return target;
}

// Afterwards the old checkpoint is at path_, or gone.
absl::Status StagingDirectory::Replace(const std::string& target) const {
  if (FAIL_POINT("checkpoint.exchange").ok() &&
      renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(),
                RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  const std::string aside = Join(directory_, WorkName(kReplacedPrefix, step_));
  if (rename(target.c_str(), aside.c_str()) != 0)
    return FileError("replace", target, errno);
  if (rename(path_.c_str(), target.c_str()) != 0) {
    const absl::Status status = FileError("create", target, errno);
    (void)rename(aside.c_str(), target.c_str());
    return status;
  }
  return RemoveTree(aside);
}

absl::Status RemoveCheckpoint(const std::string& directory, int64_t step) {
  const std::string path = Join(directory, CheckpointName(step));
  const std::string leaving = Join(directory, WorkName(kTemporaryPrefix, step));
  if (rename(path.c_str(), leaving.c_str()) != 0)
    return FileError("remove", path, errno);
  return RemoveTree(leaving);
}

absl::Status RemoveAbandoned(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (error) return FileError("read", directory, error.value());
  absl::Status first;
  for (const std::string& name : names) {
    const bool is_replaced = absl::StartsWith(name, kReplacedPrefix);
    if (!is_replaced && !absl::StartsWith(name, kTemporaryPrefix)) continue;
    const std::string path = Join(directory, name);
    if (!IsAbandoned(path)) continue;
    first.Update(is_replaced ? RestoreOrRemove(directory, name)
                             : RemoveTree(path));
  }
  return first;
}

}  // namespace ringmaster
