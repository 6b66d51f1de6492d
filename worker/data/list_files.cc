#include "worker/data/list_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "worker/data/data_file.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

// True for a directory, false for a regular file, else an error.
absl::StatusOr<bool> IsDirectory(const std::string& path) {
  struct stat info = {};
  if (ProcessFiles().Stat(path, info) != 0) return FileError(path, errno);
  if (S_ISREG(info.st_mode)) return false;
  if (S_ISDIR(info.st_mode)) return true;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is neither a regular file nor a directory"));
}

// What an entry of a directory is to whoever reads it.
enum class Entry { kFile, kDirectory, kOther };

// A link counts as the file that it leads to; one to a directory, or whose target is
// gone, is no more a file than a socket is. Any other error must not pass unseen.
absl::StatusOr<Entry> EntryAt(const std::string& path) {
  const auto failure = [&]() -> absl::StatusOr<Entry> {
    if (errno == ENOENT || errno == ENOTDIR) return Entry::kOther;
    return FileError(path, errno);
  };
  struct stat info = {};
  if (ProcessFiles().StatLink(path, info) != 0) return failure();
  if (S_ISDIR(info.st_mode)) return Entry::kDirectory;
  if (S_ISLNK(info.st_mode) && ProcessFiles().Stat(path, info) != 0) {
    const int error = errno;
    if (error == EXDEV && ProcessFiles().LeadsToNoFile(path))
      return Entry::kOther;
    errno = error;
    return failure();
  }
  return S_ISREG(info.st_mode) ? Entry::kFile : Entry::kOther;
}

// Adds to `files` those in `directory` and below it.
absl::Status AddTree(const fs::path& directory, const CancelToken* cancel,
                     std::vector<fs::path>& files) {
  RETURN_IF_ERROR(CheckNotCancelled(cancel));
  const auto names = ProcessFiles().List(directory.string());
  if (!names.has_value()) return FileError(directory.string(), errno);
  for (const std::string& name : *names) {
    RETURN_IF_ERROR(CheckNotCancelled(cancel));
    fs::path path = directory / name;
    ASSIGN_OR_RETURN(const Entry entry, EntryAt(path.string()));
    if (entry == Entry::kDirectory) {
      RETURN_IF_ERROR(AddTree(path, cancel, files));
    } else if (entry == Entry::kFile) {
      files.push_back(std::move(path));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<fs::path>> ListTree(const fs::path& root,
                                               const CancelToken* cancel) {
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(root.string()));
  if (!is_directory) return std::vector<fs::path>{root};
  std::vector<fs::path> files;
  RETURN_IF_ERROR(AddTree(root, cancel, files));
  std::vector<std::pair<std::string, fs::path>> found;  // relative path, path
  found.reserve(files.size());
  for (fs::path& path : files) {
    std::string relative = path.lexically_relative(root).string();
    found.emplace_back(std::move(relative), std::move(path));
  }
  std::sort(found.begin(), found.end());
  files.clear();
  for (auto& [relative, path] : found) files.push_back(std::move(path));
  return files;
}

absl::StatusOr<std::vector<fs::path>> ListDirectory(
    const fs::path& path, std::string_view extension) {
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(path.string()));
  if (!is_directory) return std::vector<fs::path>{path};
  const auto names = ProcessFiles().List(path.string());
  if (!names.has_value()) return FileError(path.string(), errno);
  std::vector<fs::path> files;
  for (const std::string& name : *names) {
    fs::path file = path / name;
    if (file.extension() != extension) continue;
    ASSIGN_OR_RETURN(const Entry entry, EntryAt(file.string()));
    if (entry == Entry::kFile) files.push_back(std::move(file));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), " has no files that end in ", std::string(extension)));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::vector<std::string>> ListSubdirectories(
    const fs::path& path) {
  const auto names = ProcessFiles().List(path.string());
  if (!names.has_value()) return FileError(path.string(), errno);
  std::vector<std::string> found;
  for (const std::string& name : *names) {
    if (name.starts_with('.')) continue;
    ASSIGN_OR_RETURN(const Entry entry, EntryAt((path / name).string()));
    if (entry == Entry::kDirectory) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace ringmaster
