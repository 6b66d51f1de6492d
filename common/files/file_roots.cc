#include "common/files/file_roots.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/files/sync_names.h"
#include "common/files/walk_beneath.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr char kOutsideUrl[] = "ringmaster.v1/outside_roots";
constexpr std::string_view kReadFlag = "--allow_read";
constexpr std::string_view kWriteFlag = "--allow_write";
// How often somebody may rename what a path leads over while the kernel follows it.
constexpr int kMostRaces = 32;

bool HasNul(const std::string& path) {
  return path.find('\0') != std::string::npos;
}

FileAccess AccessOf(int flags) {
  if ((flags & O_PATH) == O_PATH) return FileAccess::kRead;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY ||
                      (flags & (O_CREAT | O_TRUNC)) != 0 ||
                      (flags & O_TMPFILE) == O_TMPFILE;
  return writes ? FileAccess::kWrite : FileAccess::kRead;
}

// Leaves `error` in errno, after all that was open is closed.
int Fail(int error) {
  errno = error;
  return -1;
}

std::string WorkingDirectory() {
  std::array<char, PATH_MAX> path;
  return getcwd(path.data(), path.size()) == nullptr ? "" : path.data();
}

// The path of what is open, without links; "" if nobody tells.
std::string RealPath(int fd) {
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(),
                                path.data(), path.size());
  if (size <= 0 || path[0] != '/') return "";
  return std::string(path.data(), static_cast<size_t>(size));
}

bool IsSlash(const struct stat& info) {
  struct stat slash = {};
  return stat("/", &slash) == 0 && slash.st_dev == info.st_dev &&
         slash.st_ino == info.st_ino;
}

// The names of `path` but empty ones and ".": neither changes where it leads.
std::vector<std::string> NamesOf(const std::string& path) {
  std::vector<std::string> names = absl::StrSplit(path, '/');
  std::erase_if(names,
                [](const auto& name) { return name.empty() || name == "."; });
  return names;
}

// The part of `path` behind `root`, by their names, "." if that is all; nothing if the
// path does not begin with the root. A slash at the end stays: it asks for a directory.
std::optional<std::string> Behind(const std::string& root,
                                  const std::string& path) {
  const std::vector<std::string> names = NamesOf(path);
  const std::vector<std::string> above = NamesOf(root);
  if (names.size() < above.size() ||
      !std::equal(above.begin(), above.end(), names.begin())) {
    return std::nullopt;
  }
  if (names.size() == above.size()) return ".";
  return absl::StrCat(
      absl::StrJoin(names.begin() + static_cast<std::ptrdiff_t>(above.size()),
                    names.end(), "/"),
      absl::EndsWith(path, "/") ? "/" : "");
}

// The root's path is the operator's, who may have named it over links.
int OpenRoot(const std::string& path) {
  return open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int OpenByKernel(int root, const std::string& path, int flags, mode_t mode) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH;
  for (int race = 0; race < kMostRaces; ++race) {
    const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how));
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EAGAIN && errno != EINTR) return -errno;
  }
  return -EAGAIN;
}

int RemoveTreeAt(int directory, const char* name) {
  if (unlinkat(directory, name, 0) == 0 || errno == ENOENT) return 0;
  // Linux has EISDIR for a directory, POSIX EPERM.
  if (errno != EISDIR && errno != EPERM) return -1;
  const int error = errno;
  const int fd =
      openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Fail(errno == ENOTDIR || errno == ELOOP ? error : errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(fd), &closedir);
  if (entries == nullptr) return close(fd), -1;
  errno = 0;
  while (const dirent* const entry = readdir(entries.get())) {
    const std::string_view found = entry->d_name;
    if (found != "." && found != ".." && RemoveTreeAt(fd, entry->d_name) != 0)
      return -1;
    errno = 0;
  }
  if (errno != 0) return -1;
  return unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0
                                                                         : -1;
}

FileRoots& MutableProcessFiles() {
  static FileRoots& files = *new FileRoots();
  return files;
}

}  // namespace

FileRoots::FileRoots() = default;

absl::Status FileRoots::AddRoots(std::string_view flag,
                                 const std::vector<std::string>& directories,
                                 std::vector<std::string>& roots,
                                 bool& is_all) {
  is_all = false;
  const std::vector<std::string> split =
      absl::StrSplit(absl::StrJoin(directories, ":"), ':');
  for (const std::string& directory :
       directories.empty() ? directories : split) {
    const auto refuse = [&](const char* why) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(flag), "=", directory, ": ", why));
    };
    if (directory.empty()) return refuse("names no directory");
    const UniqueFd fd(OpenRoot(directory));
    struct stat info = {};
    if (!fd.is_open() || fstat(fd.get(), &info) != 0)
      return refuse(std::strerror(errno));
    if (IsSlash(info)) is_all = true;
    roots.push_back(directory.front() == '/'
                        ? directory
                        : absl::StrCat(WorkingDirectory(), "/", directory));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileRoots> FileRoots::Open(const Directories& directories,
                                          Resolver resolver) {
  FileRoots roots;
  roots.resolver_ = resolver;
  roots.start_ = WorkingDirectory();
  RETURN_IF_ERROR(
      AddRoots(kReadFlag, directories.read, roots.read_, roots.reads_all_));
  RETURN_IF_ERROR(
      AddRoots(kWriteFlag, directories.write, roots.write_, roots.writes_all_));
  return roots;
}

bool FileRoots::IsAll(FileAccess access) const {
  return writes_all_ || (access == FileAccess::kRead && reads_all_);
}

std::string FileRoots::Absolute(const std::string& path) const {
  return path.front() == '/' ? path : absl::StrCat(start_, "/", path);
}

std::vector<FileRoots::Found> FileRoots::RootsOf(const std::string& path,
                                                 FileAccess access) const {
  const std::string absolute = Absolute(path);
  std::vector<Found> found;
  const auto add = [&](const std::vector<std::string>& roots) {
    for (const std::string& root : roots) {
      // Anew each time: a file system may be mounted there since, or the directory
      // removed and made again.
      UniqueFd fd(OpenRoot(root));
      const int error = fd.is_open() ? 0 : errno;
      std::optional<std::string> rest = Behind(root, absolute);
      if (!rest.has_value() && fd.is_open()) {
        const std::string real = RealPath(fd.get());
        if (!real.empty()) rest = Behind(real, absolute);
      }
      if (rest.has_value())
        found.push_back({std::move(fd), error, *std::move(rest)});
    }
  };
  add(write_);
  if (access == FileAccess::kRead) add(read_);
  return found;
}

int FileRoots::OpenBeneath(int root, const std::string& rest, int flags,
                           mode_t mode) const {
  if (resolver_ == Resolver::kKernel) {
    const int fd = OpenByKernel(root, rest, flags, mode);
    // Sandboxes refuse a call that they do not know with either.
    if (fd != -ENOSYS && fd != -EPERM) return fd;
  }
  return WalkBeneath(root, rest, flags, mode);
}

int FileRoots::OpenAs(FileAccess access, const std::string& path, int flags,
                      mode_t mode) const {
  if (HasNul(path)) return -EINVAL;
  if (path.empty()) return -ENOENT;
  if ((flags & (O_PATH | O_ACCMODE)) == O_RDONLY) flags |= O_NONBLOCK;
  if (IsAll(access)) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, mode);
    return fd >= 0 ? fd : -errno;
  }
  // One root may be in another.
  int result = -EXDEV;
  for (const Found& root : RootsOf(path, access)) {
    const int fd = root.fd.is_open()
                       ? OpenBeneath(root.fd.get(), root.rest, flags, mode)
                       : -root.error;
    if (root.fd.is_open() && fd != -EXDEV) return fd;
    if (fd != -EXDEV) result = fd;
  }
  return result;
}

UniqueFd FileRoots::OpenFile(const std::string& path, int flags,
                             mode_t mode) const {
  const int fd = OpenAs(AccessOf(flags), path, flags, mode);
  if (fd < 0) errno = -fd;
  return UniqueFd(std::max(fd, -1));
}

int FileRoots::Stat(const std::string& path, struct stat& found) const {
  const int fd = OpenAs(FileAccess::kRead, path, O_PATH, 0);
  if (fd < 0) return Fail(-fd);
  const int error = fstat(fd, &found) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? 0 : Fail(error);
}

FileRoots::Place FileRoots::PlaceOf(FileAccess access,
                                    const std::string& path) const {
  const auto refused = [](int error) {
    errno = error;
    return Place();
  };
  if (HasNul(path)) return refused(EINVAL);
  Place place;
  if (IsAll(access)) {
    place.directory = AT_FDCWD;
    place.name = path;
    return place;
  }
  std::string bare = path;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  if (bare.empty()) return refused(ENOENT);
  place.name = bare.substr(bare.rfind('/') + 1);
  // A root itself has no place beneath one.
  if (place.name.empty() || place.name == "." || place.name == "..")
    return refused(EXDEV);
  const int fd = OpenAs(access, DirectoryOf(bare), O_PATH | O_DIRECTORY, 0);
  if (fd < 0) return refused(-fd);
  place.owned = UniqueFd(fd);
  place.directory = fd;
  return place;
}

int FileRoots::StatLink(const std::string& path, struct stat& found) const {
  const Place place = PlaceOf(FileAccess::kRead, path);
  if (place.directory == -1) {
    // A root is no link.
    return errno == EXDEV ? Stat(path, found) : -1;
  }
  const int error = fstatat(place.directory, place.name.c_str(), &found,
                            AT_SYMLINK_NOFOLLOW) == 0
                        ? 0
                        : errno;
  return error == 0 ? 0 : Fail(error);
}

bool FileRoots::LeadsToNoFile(const std::string& path) const {
  const Place place = PlaceOf(FileAccess::kRead, path);
  if (place.directory == -1) return false;
  struct stat found = {};
  if (fstatat(place.directory, place.name.c_str(), &found, 0) == 0)
    return S_ISDIR(found.st_mode);
  return errno == ENOENT || errno == ENOTDIR;
}

std::optional<std::vector<std::string>> FileRoots::List(
    const std::string& path) const {
  const int fd = OpenAs(FileAccess::kRead, path, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return Fail(-fd), std::nullopt;
  DIR* const entries = fdopendir(fd);
  if (entries == nullptr) {
    const int error = errno;
    close(fd);
    return Fail(error), std::nullopt;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(entries);
  if (error != 0) return Fail(error), std::nullopt;
  return names;
}

std::string FileRoots::Canonical(const std::string& path) const {
  const UniqueFd fd(OpenAs(FileAccess::kRead, path, O_PATH, 0));
  const std::string real = fd.is_open() ? RealPath(fd.get()) : "";
  return real.empty() ? path : real;
}

std::optional<std::string> FileRoots::ReadLink(const std::string& path) const {
  const Place place = PlaceOf(FileAccess::kRead, path);
  if (place.directory == -1) return std::nullopt;
  std::array<char, PATH_MAX> text;
  const ssize_t size =
      readlinkat(place.directory, place.name.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  return std::string(text.data(), static_cast<size_t>(size));
}

int FileRoots::MakeDirectory(const std::string& path, mode_t mode) const {
  const Place place = PlaceOf(FileAccess::kWrite, path);
  if (place.directory == -1) return -1;
  return mkdirat(place.directory, place.name.c_str(), mode) == 0 ? 0
                                                                 : Fail(errno);
}

int FileRoots::MakeDirectories(const std::string& path, mode_t mode) const {
  struct stat found = {};
  if (Stat(path, found) == 0) return S_ISDIR(found.st_mode) ? 0 : Fail(ENOTDIR);
  if (errno != ENOENT) return -1;
  // A root is the operator's to make.
  for (const Found& root : RootsOf(path, FileAccess::kWrite)) {
    if (root.rest == ".") return Fail(ENOENT);
  }
  const std::string parent = DirectoryOf(path);
  if (parent != path && parent != "." && MakeDirectories(parent, mode) != 0)
    return -1;
  // A slash at the end made it already, as its own parent.
  return MakeDirectory(path, mode) == 0 || errno == EEXIST ? 0 : -1;
}

int FileRoots::Rename(const std::string& from, const std::string& to,
                      unsigned flags) const {
  const Place old = PlaceOf(FileAccess::kWrite, from);
  if (old.directory == -1) return -1;
  const Place place = PlaceOf(FileAccess::kWrite, to);
  if (place.directory == -1) return -1;
  // renameat2 without flags is missing where renameat is there.
  const int result =
      flags == 0 ? renameat(old.directory, old.name.c_str(), place.directory,
                            place.name.c_str())
                 : renameat2(old.directory, old.name.c_str(), place.directory,
                             place.name.c_str(), flags);
  if (result == 0) return 0;
  return Fail(errno == EXDEV ? ENOTSUP : errno);
}

int FileRoots::Link(const std::string& from, const std::string& to) const {
  const Place old = PlaceOf(FileAccess::kWrite, from);
  if (old.directory == -1) return -1;
  const Place place = PlaceOf(FileAccess::kWrite, to);
  if (place.directory == -1) return -1;
  if (linkat(old.directory, old.name.c_str(), place.directory,
             place.name.c_str(), 0) == 0) {
    return 0;
  }
  return Fail(errno == EXDEV ? ENOTSUP : errno);
}

int FileRoots::Symlink(const std::string& target,
                       const std::string& path) const {
  const Place place = PlaceOf(FileAccess::kWrite, path);
  if (place.directory == -1) return -1;
  return symlinkat(target.c_str(), place.directory, place.name.c_str()) == 0
             ? 0
             : Fail(errno);
}

int FileRoots::Unlink(const std::string& path) const {
  const Place place = PlaceOf(FileAccess::kWrite, path);
  if (place.directory == -1) return -1;
  return unlinkat(place.directory, place.name.c_str(), 0) == 0 ? 0
                                                               : Fail(errno);
}

int FileRoots::RemoveTree(const std::string& path) const {
  const Place place = PlaceOf(FileAccess::kWrite, path);
  if (place.directory == -1) return errno == ENOENT ? 0 : -1;
  return RemoveTreeAt(place.directory, place.name.c_str()) == 0 ? 0
                                                                : Fail(errno);
}

absl::Status FileRoots::Check(const std::string& path,
                              FileAccess access) const {
  // Above a directory that is still to be made, the nearest one that is there decides.
  std::string probed = path;
  int fd = OpenAs(access, probed, O_PATH, 0);
  while (fd == -ENOENT && !probed.empty() && probed != "/" &&
         absl::StrContains(probed, '/') && !RootsOf(probed, access).empty()) {
    while (probed.size() > 1 && probed.back() == '/') probed.pop_back();
    probed = DirectoryOf(probed);
    fd = OpenAs(access, probed, O_PATH, 0);
    // Above the root itself.
    if (fd == -EXDEV && RootsOf(probed, access).empty())
      return absl::OkStatus();
  }
  if (fd >= 0) close(fd);
  return fd == -EXDEV || fd == -EINVAL ? Refusal(path, access)
                                       : absl::OkStatus();
}

std::string FileRoots::DirectoryToAllow(const std::string& path,
                                        FileAccess access) const {
  if (HasNul(path) || path.empty()) return "DIR";
  const auto is_slash = [](const std::string& name) {
    return NamesOf(std::filesystem::path(name).lexically_normal()).empty();
  };
  const std::string absolute = Absolute(path);
  const std::string parent = DirectoryOf(absolute);
  // By the text alone: whoever named the path must not learn from the answer what is
  // there.
  if (is_slash(absolute)) return "DIR";
  const bool may_be_file = access == FileAccess::kRead && !is_slash(parent) &&
                           absolute.back() != '/';
  return may_be_file ? parent : absolute;
}

absl::Status FileRoots::Refusal(const std::string& path,
                                FileAccess access) const {
  const std::string flag(access == FileAccess::kRead ? kReadFlag : kWriteFlag);
  std::vector<std::string> allowed;
  const auto add = [&](std::string_view name,
                       const std::vector<std::string>& roots) {
    for (const std::string& root : roots)
      allowed.push_back(absl::StrCat(std::string(name), "=", root));
  };
  if (access == FileAccess::kRead) add(kReadFlag, read_);
  add(kWriteFlag, write_);
  const bool is_within =
      !HasNul(path) && !path.empty() && !RootsOf(path, access).empty();
  const char* const verb = access == FileAccess::kRead ? "read" : "write";
  const std::string directory = DirectoryToAllow(path, access);
  std::string text =
      HasNul(path) ? absl::StrCat("a path with a NUL in it, ",
                                  absl::CHexEscape(path), ", is refused")
      : is_within
          ? absl::StrCat(
                path, " leads out of what this process may ", verb,
                ", over .., a link in /proc or a link that is not relative")
          : absl::StrCat(path,
                         " is not beneath a directory that this process may ",
                         verb, ": start it with ", flag, "=", directory);
  absl::StrAppend(
      &text, " (it has ",
      allowed.empty() ? absl::StrCat("no ", flag) : absl::StrJoin(allowed, " "),
      ")");
  absl::Status status =
      WithExitCode(absl::PermissionDeniedError(text), ExitCode::kUsage);
  status.SetPayload(kOutsideUrl, absl::Cord());
  return status;
}

bool IsOutsideRoots(const absl::Status& status) {
  return status.GetPayload(kOutsideUrl).has_value();
}

const FileRoots& ProcessFiles() { return MutableProcessFiles(); }

void LimitProcessFiles(FileRoots roots) {
  MutableProcessFiles() = std::move(roots);
}

}  // namespace ringmaster
