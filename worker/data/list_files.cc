#include "worker/data/list_files.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/data/data_file.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

// True for a directory, false for a regular file, else an error.
absl::StatusOr<bool> IsDirectory(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::regular) return false;
  if (status.type() == fs::file_type::directory) return true;
  if (status.type() == fs::file_type::not_found)
    return FileError(path.string(), ENOENT);
  if (error) return FileError(path.string(), error.value());
  return absl::InvalidArgumentError(absl::StrCat(
      path.string(), " is neither a regular file nor a directory"));
}

// Returns true if an entry of a directory is a file to read. A link whose
// target is gone is no more a regular file than a socket is; any other error
// must not pass unseen.
absl::StatusOr<bool> IsFile(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.is_regular_file(error)) return true;
  if (error && error != std::errc::no_such_file_or_directory)
    return FileError(entry.path().string(), error.value());
  return false;
}

}  // namespace

absl::StatusOr<std::vector<fs::path>> ListTree(const fs::path& root,
                                               const CancelToken* cancel) {
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(root));
  if (!is_directory) return std::vector<fs::path>{root};
  std::vector<std::pair<std::string, fs::path>> found;  // relative path, path
  std::error_code error;
  fs::recursive_directory_iterator it(root, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    RETURN_IF_ERROR(CheckNotCancelled(cancel));
    ASSIGN_OR_RETURN(const bool is_file, IsFile(*it));
    if (is_file) {
      found.emplace_back(it->path().lexically_relative(root).string(),
                         it->path());
    }
    it.increment(error);
  }
  if (error) return FileError(root.string(), error.value());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  files.reserve(found.size());
  for (auto& [relative, path] : found) files.push_back(std::move(path));
  return files;
}

absl::StatusOr<std::vector<fs::path>> ListDirectory(
    const fs::path& path, std::string_view extension) {
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(path));
  if (!is_directory) return std::vector<fs::path>{path};
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator it(path, error);
  while (!error && it != fs::directory_iterator()) {
    ASSIGN_OR_RETURN(const bool is_file, IsFile(*it));
    if (is_file && it->path().extension() == extension)
      files.push_back(it->path());
    it.increment(error);
  }
  if (error) return FileError(path.string(), error.value());
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), " has no files that end in ", std::string(extension)));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace ringmaster
