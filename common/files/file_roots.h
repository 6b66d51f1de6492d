// FileRoots: the directories beneath which a process reads and writes files for others.
//
// Its methods are the system calls of the same names, for paths that somebody else has
// chosen. A path is matched to the root that contains it by its text, and then opened
// beneath that root, as it is there at the time (openat2 with RESOLVE_BENEATH; where the kernel or a
// sandbox refuses that call, name by name without following links). So neither `..`, nor
// links, nor /proc lead out, whatever others rename meanwhile. Links that stay beneath the
// root are followed if they are relative; an absolute link is refused wherever it leads.
// A root may itself be named over a link. Under the root `/` nothing is refused.
//
// Methods return -1, or something that is not open, with errno: as the system call, and
//   EXDEV   there is no such root, or the path leads out of it; nothing was opened
//   EINVAL  the path has a NUL in it
//   EAGAIN  others kept renaming what the path leads over
// and, of a root that is no longer there, ENOENT or what else opening it gives.
// Thread-safety: immutable.
// Example:
//   ASSIGN_OR_RETURN(const FileRoots roots, FileRoots::Open({.read = {"/data"}}));
//   const UniqueFd fd = roots.OpenFile("/data/text", O_RDONLY);
#ifndef RINGMASTER_COMMON_FILES_FILE_ROOTS_H_
#define RINGMASTER_COMMON_FILES_FILE_ROOTS_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

enum class FileAccess { kRead, kWrite };

class FileRoots {
 public:
  // Each entry is a directory, or several with ":" between them.
  struct Directories {
    std::vector<std::string> read = {};
    std::vector<std::string> write = {};  // may be read as well
  };
  // Whether paths are resolved by openat2, or as where there is none: for tests.
  enum class Resolver { kKernel, kWalk };

  // Whatever the user of the process may.
  FileRoots();
  // Only what is beneath `directories`; nothing if there are none.
  //   INVALID_ARGUMENT  one line that names the flag and a directory that is empty, is not
  //                     there or is none
  [[nodiscard]] static absl::StatusOr<FileRoots> Open(
      const Directories& directories, Resolver resolver = Resolver::kKernel);

  // Flags that write (O_WRONLY, O_RDWR, O_CREAT, ...) need a root that may be written. The
  // descriptor is closed on exec. A pipe without a writer is not waited for.
  [[nodiscard]] UniqueFd OpenFile(const std::string& path, int flags,
                                  mode_t mode = 0) const;
  [[nodiscard]] int Stat(const std::string& path, struct stat& found) const;
  // The same of a link itself.
  [[nodiscard]] int StatLink(const std::string& path, struct stat& found) const;
  // Returns true if a link leads to a directory or to nothing, wherever that is: nothing
  // else of what it leads to is told, and nothing is opened.
  [[nodiscard]] bool LeadsToNoFile(const std::string& path) const;
  // The names in a directory, in no order, without "." and "..".
  [[nodiscard]] std::optional<std::vector<std::string>> List(
      const std::string& path) const;
  // The path without links, which the roots contain as well; `path` if nobody tells.
  [[nodiscard]] std::string Canonical(const std::string& path) const;
  // Where a link leads.
  [[nodiscard]] std::optional<std::string> ReadLink(
      const std::string& path) const;

  [[nodiscard]] int MakeDirectory(const std::string& path, mode_t mode) const;
  // Makes it and those that it is in, as far as they are missing.
  [[nodiscard]] int MakeDirectories(const std::string& path, mode_t mode) const;
  // `flags` are renameat2's. File systems that cannot give the new name, for which rename
  // has EXDEV, have ENOTSUP here.
  [[nodiscard]] int Rename(const std::string& from, const std::string& to,
                           unsigned flags = 0) const;
  [[nodiscard]] int Link(const std::string& from, const std::string& to) const;
  [[nodiscard]] int Symlink(const std::string& target,
                            const std::string& path) const;
  [[nodiscard]] int Unlink(const std::string& path) const;
  // Removes `path` and everything in it, if it is there; links are not followed.
  [[nodiscard]] int RemoveTree(const std::string& path) const;

  // OK unless opening `path`, which need not be there, is refused with EXDEV or EINVAL.
  [[nodiscard]] absl::Status Check(const std::string& path,
                                   FileAccess access) const;
  // The Status for a path that was refused so: PERMISSION_DENIED, with IsOutsideRoots and
  // ExitCode::kUsage. Its line names the path, the flag to add, and those that there are.
  [[nodiscard]] absl::Status Refusal(const std::string& path,
                                     FileAccess access) const;

 private:
  // A root that contains a path.
  struct Found {
    UniqueFd fd;
    int error = 0;     // an errno, if it cannot be opened
    std::string rest;  // the path behind it, "." if that is all
  };
  // A name and the directory that it is in, which may be AT_FDCWD.
  struct Place {
    UniqueFd owned;
    int directory = -1;
    std::string name;
  };

  static absl::Status AddRoots(std::string_view flag,
                               const std::vector<std::string>& directories,
                               std::vector<std::string>& roots, bool& is_all);
  [[nodiscard]] bool IsAll(FileAccess access) const;
  [[nodiscard]] std::string Absolute(const std::string& path) const;
  [[nodiscard]] std::vector<Found> RootsOf(const std::string& path,
                                           FileAccess access) const;
  // The descriptor, or an errno as a negative number.
  [[nodiscard]] int OpenAs(FileAccess access, const std::string& path,
                           int flags, mode_t mode) const;
  // The directory for a refusal to name, absolute; never "/", which allows everything.
  [[nodiscard]] std::string DirectoryToAllow(const std::string& path,
                                             FileAccess access) const;
  [[nodiscard]] int OpenBeneath(int root, const std::string& rest, int flags,
                                mode_t mode) const;
  [[nodiscard]] Place PlaceOf(FileAccess access, const std::string& path) const;

  std::vector<std::string> read_;  // absolute paths
  std::vector<std::string> write_;
  bool reads_all_ = true;
  bool writes_all_ = true;
  Resolver resolver_ = Resolver::kKernel;
  std::string start_;  // the directory that relative paths begin in
};

// Returns true for a Refusal, however annotated.
[[nodiscard]] bool IsOutsideRoots(const absl::Status& status);

// The roots of this process: whatever its user may, unless its main has limited them. A
// worker opens through them whatever a job names.
[[nodiscard]] const FileRoots& ProcessFiles();
// Limits them, for good. Call it once, before there are threads.
void LimitProcessFiles(FileRoots roots);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FILES_FILE_ROOTS_H_
