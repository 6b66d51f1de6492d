#include "worker/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/fail_point/fail_point.h"
#include "common/files/file_roots.h"
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
constexpr absl::string_view kLinkPrefix = ".latest-";
constexpr size_t kRandomDigits = 16;

std::string Join(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

// The kernel that this process runs under; "" if it does not tell.
const std::string& ThisHost() {
  static const std::string& host = *new std::string([] {
    std::string boot_id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
    return boot_id.substr(0, boot_id.find('-'));
  }());
  return host;
}

// "HOST-RANDOM", which nobody else has.
std::string OwnSuffix() {
  absl::BitGen random;
  return absl::StrCat(ThisHost(), "-", absl::Hex(random(), absl::kZeroPad16));
}

// A new name for work on the checkpoint of `step`.
std::string WorkName(absl::string_view prefix, int64_t step) {
  return absl::StrCat(prefix, CheckpointName(step), "-", OwnSuffix());
}

// The parts of a WorkName behind its prefix.
struct WorkParts {
  absl::string_view checkpoint;
  absl::string_view
      host;  // "" in names of release 0.1, which have another form
};

WorkParts PartsOf(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  if (parts.size() < 2) return {name, ""};
  return {name.substr(0, parts[0].size() + 1 + parts[1].size()),
          parts.size() == 4 ? parts[2] : ""};
}

absl::Status RemoveTree(const std::string& path) {
  return ProcessFiles().RemoveTree(path) == 0
             ? absl::OkStatus()
             : FileError("remove", path, errno);
}

UniqueFd OpenDirectory(const std::string& path) {
  return ProcessFiles().OpenFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// Looks at the directory at `path` and the files in it.
void Measure(const std::string& path, UnfinishedCheckpoint& unfinished) {
  absl::Time& last = unfinished.last_change;
  last = absl::InfinitePast();
  const auto look = [&](const std::string& at) {
    struct stat info = {};
    const bool is_seen = ProcessFiles().Stat(at, info) == 0;
    last = std::max(last, is_seen ? absl::TimeFromTimespec(info.st_mtim)
                                  : absl::InfiniteFuture());
    if (is_seen && S_ISREG(info.st_mode)) unfinished.size_bytes += info.st_size;
  };
  look(path);
  const auto names = ProcessFiles().List(path);
  if (!names.has_value()) last = absl::InfiniteFuture();
  for (const std::string& name : names.value_or(std::vector<std::string>()))
    look(Join(path, name));
}

// Returns true if no live process works in the directory at `path`, whose name has
// `host` and which last changed at `last_change`.
bool IsAbandoned(const std::string& path, absl::string_view host,
                 absl::Time last_change, absl::Time now) {
  const UniqueFd fd = OpenDirectory(path);
  if (!fd.is_open()) return false;
  const bool is_locked = flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno == EWOULDBLOCK) return false;
  if (is_locked && !host.empty() && host == ThisHost()) return true;
  return now - last_change > kAbandonedAge;
}

// Puts an abandoned `.old-` directory back if nothing took its place.
absl::Status RestoreOrRemove(const std::string& directory,
                             absl::string_view name,
                             absl::string_view checkpoint) {
  const std::string path = Join(directory, name);
  const std::string target = Join(directory, checkpoint);
  struct stat present = {};
  if (StepOfCheckpointName({checkpoint.data(), checkpoint.size()})
          .has_value() &&
      ProcessFiles().Stat(target, present) != 0 &&
      ProcessFiles().Rename(path, target) == 0) {
    return SyncDirectory(directory);
  }
  return RemoveTree(path);
}

// Returns true if the name `name` at `path` is a link on its way to become `latest` that
// a writer left.
bool IsAbandonedLink(const std::string& path, absl::string_view name,
                     absl::Time now) {
  if (!absl::ConsumePrefix(&name, kLinkPrefix)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  struct stat info = {};
  if (parts.size() != 2 || parts[1].size() != kRandomDigits ||
      ProcessFiles().StatLink(path, info) != 0 || !S_ISLNK(info.st_mode)) {
    return false;
  }
  return (!parts[0].empty() && parts[0] == ThisHost()) ||
         now - absl::TimeFromTimespec(info.st_mtim) > kAbandonedAge;
}

absl::Status RemoveAbandonedLinks(const std::string& directory,
                                  absl::Time now) {
  absl::Status first;
  // ListUnfinished says if the directory cannot be read.
  const auto names = ProcessFiles().List(directory);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const std::string path = Join(directory, name);
    if (IsAbandonedLink(path, name, now) && ProcessFiles().Unlink(path) != 0 &&
        errno != ENOENT) {
      first.Update(FileError("remove", path, errno));
    }
  }
  return first;
}

// Returns true if `fd`, just locked, is still the directory at its name: somebody may
// have taken it for a leftover before it was locked.
bool IsStillThere(const UniqueFd& fd) {
  struct stat info = {};
  return fstat(fd.get(), &info) == 0 && info.st_nlink > 0;
}

// Points the link of that name to the checkpoint of `step`; see LinkLatest.
absl::Status PointLink(const std::string& directory, absl::string_view name,
                       int64_t step) {
  const std::string target = CheckpointName(step);
  const std::string link = Join(directory, name);
  struct stat present = {};
  const bool is_there = ProcessFiles().StatLink(link, present) == 0;
  if (is_there && S_ISLNK(present.st_mode)) {
    if (ProcessFiles().ReadLink(link) == target) return absl::OkStatus();
  } else if (is_there) {
    return absl::FailedPreconditionError(absl::StrCat(
        link, " is not a link, so it stays as it is; give it another name"));
  }
  for (;;) {
    const std::string own =
        Join(directory, absl::StrCat(kLinkPrefix, OwnSuffix()));
    RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.link"), link));
    if (ProcessFiles().Symlink(target, own) != 0)
      return FileError("create", own, errno);
    absl::Status status = Annotate(FAIL_POINT("checkpoint.link_rename"), link);
    if (status.ok()) {
      if (ProcessFiles().Rename(own, link) == 0)
        return SyncDirectory(directory);
      if (errno == ENOENT) continue;  // taken for a leftover
      status = FileError("create", link, errno);
    }
    (void)ProcessFiles().Unlink(own);
    return status;
  }
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
  for (;;) {
    StagingDirectory staging(directory, step);
    if (ProcessFiles().MakeDirectory(staging.path_, kDirectoryMode) != 0) {
      const absl::Status status = FileError("create", staging.path_, errno);
      staging.path_.clear();
      return status;
    }
    RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.create"), staging.path_));
    staging.lock_ = OpenDirectory(staging.path_);
    if (!staging.lock_.is_open() && errno != ENOENT)
      return FileError("open", staging.path_, errno);
    // On a file system without locks there is none to hold, see IsAbandoned.
    if (staging.lock_.is_open() &&
        (flock(staging.lock_.get(), LOCK_EX | LOCK_NB) == 0 ||
         errno != EWOULDBLOCK) &&
        IsStillThere(staging.lock_)) {
      return staging;
    }
    staging.path_.clear();
  }
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
  if (ProcessFiles().Rename(path_, target) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST)
      return FileError("create", target, errno);
    RETURN_IF_ERROR(Replace(target));
  }
  RETURN_IF_ERROR(Annotate(FAIL_POINT("checkpoint.published"), target));
  RETURN_IF_ERROR(SyncDirectory(directory_));
  return target;
}

// Afterwards the old checkpoint is at path_, or gone.
absl::Status StagingDirectory::Replace(const std::string& target) const {
  if (FAIL_POINT("checkpoint.exchange").ok() &&
      ProcessFiles().Rename(path_, target, RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  const std::string aside = Join(directory_, WorkName(kReplacedPrefix, step_));
  if (ProcessFiles().Rename(target, aside) != 0)
    return FileError("replace", target, errno);
  (void)FAIL_POINT("checkpoint.aside");  // a place to crash, not to fail
  if (ProcessFiles().Rename(path_, target) != 0) {
    const absl::Status status = FileError("create", target, errno);
    (void)ProcessFiles().Rename(aside, target);
    return status;
  }
  return RemoveTree(aside);
}

absl::Status RemoveCheckpoint(const std::string& directory, int64_t step) {
  const std::string path = Join(directory, CheckpointName(step));
  const std::string leaving = Join(directory, WorkName(kTemporaryPrefix, step));
  if (ProcessFiles().Rename(path, leaving) != 0)
    return FileError("remove", path, errno);
  return RemoveTree(leaving);
}

absl::Status LinkLatest(const std::string& directory, int64_t step) {
  return PointLink(directory, kLatestLink, step);
}

absl::Status LinkBest(const std::string& directory, int64_t step) {
  return PointLink(directory, kBestLink, step);
}

std::optional<int64_t> StepOfBest(const std::string& directory) {
  const std::optional<std::string> target =
      ProcessFiles().ReadLink(Join(directory, kBestLink));
  return target.has_value() ? StepOfCheckpointName(*target) : std::nullopt;
}
std::string FollowLink(const std::string& path) {
  fs::path link(path);
  if (!link.has_filename()) link = link.parent_path();
  if (link.filename() != kLatestLink && link.filename() != kBestLink)
    return path;
  const std::optional<std::string> target =
      ProcessFiles().ReadLink(link.string());
  return target.has_value() ? (link.parent_path() / *target).string() : path;
}

absl::StatusOr<std::vector<UnfinishedCheckpoint>> ListUnfinished(
    const std::string& directory, absl::Time now) {
  std::vector<UnfinishedCheckpoint> found;
  const auto names = ProcessFiles().List(directory);
  if (!names.has_value() && errno == ENOENT) return found;
  if (!names.has_value()) return FileError("read", directory, errno);
  for (const std::string& name : *names) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, kReplacedPrefix) &&
        !absl::ConsumePrefix(&rest, kTemporaryPrefix)) {
      continue;
    }
    UnfinishedCheckpoint unfinished;
    unfinished.path = Join(directory, name);
    Measure(unfinished.path, unfinished);
    unfinished.is_abandoned = IsAbandoned(unfinished.path, PartsOf(rest).host,
                                          unfinished.last_change, now);
    found.push_back(std::move(unfinished));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

absl::Status RemoveAbandoned(const std::string& directory, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<UnfinishedCheckpoint> found,
                   ListUnfinished(directory, now));
  absl::Status first = RemoveAbandonedLinks(directory, now);
  for (const UnfinishedCheckpoint& unfinished : found) {
    if (!unfinished.is_abandoned) continue;
    const std::string name = fs::path(unfinished.path).filename().string();
    absl::string_view rest = name;
    first.Update(
        absl::ConsumePrefix(&rest, kReplacedPrefix)
            ? RestoreOrRemove(directory, name, PartsOf(rest).checkpoint)
            : RemoveTree(unfinished.path));
  }
  return first;
}

}  // namespace ringmaster
