#include "common/config/file_changes.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

std::string VersionOf(const std::string& path) {
  struct stat status = {};
  if (path.empty() || stat(path.c_str(), &status) != 0) return "none";
  return absl::StrCat(status.st_dev, " ", status.st_ino, " ", status.st_size,
                      " ", status.st_mode, " ", status.st_mtim.tv_sec, ".",
                      status.st_mtim.tv_nsec, " ", status.st_ctim.tv_sec, ".",
                      status.st_ctim.tv_nsec);
}

}  // namespace

FileChanges::FileChanges(std::vector<std::string> paths)
    : paths_(std::move(paths)) {}

bool FileChanges::Look() {
  seen_.clear();
  for (const std::string& path : paths_)
    absl::StrAppend(&seen_, VersionOf(path), "\n");
  return seen_ != accepted_;
}

void FileChanges::Accept() {
  accepted_ = seen_;
  refusals_ = 0;
}

int FileChanges::Refuse() {
  if (std::exchange(refused_, seen_) != seen_) refusals_ = 0;
  return ++refusals_;
}

}  // namespace ringmaster
