#include "common/files/walk_beneath.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {
namespace {

// As many links as the kernel follows (path_resolution(7)).
constexpr int kMostLinks = 40;
// How often somebody may change a name between two looks at it.
constexpr int kMostRaces = 32;

class Walk {
 public:
  Walk(int root, int flags, mode_t mode)
      : root_(root), flags_(flags | O_CLOEXEC), mode_(mode) {}

  int Open(const std::string& path) {
    Prepend(path);
    while (!names_.empty()) {
      const std::string name = names_.front();
      if (name.empty() || name == ".") {
        names_.pop_front();
        continue;
      }
      if (name == "..") {
        if (above_.empty()) return -EXDEV;
        above_.pop_back();
        names_.pop_front();
        continue;
      }
      const int result = Enter(name);
      if (result != kGoOn) return result;
    }
    // The path ends in a directory that is open already.
    if ((flags_ & O_CREAT) != 0 && (flags_ & O_DIRECTORY) == 0) return -EISDIR;
    return Result(openat(here(), ".", flags_ & ~O_NOFOLLOW, mode_));
  }

 private:
  static constexpr int kGoOn = -(1 << 20);  // no errno

  static int Result(int fd) { return fd >= 0 ? fd : -errno; }

  int here() const { return above_.empty() ? root_ : above_.back().get(); }

  // Takes `path` before the names that are left.
  void Prepend(const std::string& path) {
    std::vector<std::string> names = absl::StrSplit(path, '/');
    names_.insert(names_.begin(), names.begin(), names.end());
  }

  // Returns true if nothing but the name at the front is left; `must_be_directory` is set
  // if slashes follow it.
  bool IsLast(bool& must_be_directory) const {
    for (size_t i = 1; i < names_.size(); ++i) {
      if (!names_[i].empty() && names_[i] != ".") return false;
    }
    must_be_directory = names_.size() > 1;
    return true;
  }

  // Goes into `name`, the first that is left, or opens it if it is the last.
  int Enter(const std::string& name) {
    bool must_be_directory = false;
    const bool is_last = IsLast(must_be_directory);
    UniqueFd found(
        openat(here(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!found.is_open()) {
      const int error = errno;
      if (error != ENOENT || !is_last || (flags_ & O_CREAT) == 0) return -error;
      if (must_be_directory) return -EISDIR;
      return OpenLast(name, flags_);
    }
    struct stat info = {};
    if (fstat(found.get(), &info) != 0) return -errno;
    if (S_ISLNK(info.st_mode)) {
      const bool keeps_link = is_last && !must_be_directory;
      if (keeps_link && (flags_ & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EEXIST;
      if (keeps_link && (flags_ & O_NOFOLLOW) != 0)
        return OpenLast(name, flags_);
      return Follow(found.get(), name);
    }
    if (!is_last) {
      if (!S_ISDIR(info.st_mode)) return -ENOTDIR;
      above_.push_back(std::move(found));
      names_.pop_front();
      return kGoOn;
    }
    if (must_be_directory && !S_ISDIR(info.st_mode)) return -ENOTDIR;
    return OpenLast(name, flags_ | (must_be_directory ? O_DIRECTORY : 0));
  }

  // A link leads on from the directory that it is in.
  int Follow(int link, const std::string& name) {
    if (++links_ > kMostLinks) return -ELOOP;
    struct statfs system = {};
    if (fstatfs(link, &system) != 0) return -errno;
    // Those in /proc lead to what they stand for, whatever their text says.
    if (system.f_type == PROC_SUPER_MAGIC) return -EXDEV;
    std::array<char, PATH_MAX> text;
    const ssize_t size =
        readlinkat(here(), name.c_str(), text.data(), text.size());
    if (size < 0) return errno == EINVAL || errno == ENOENT ? Race() : -errno;
    if (size == 0) return -ENOENT;
    if (text[0] == '/') return -EXDEV;
    names_.pop_front();
    // A link at the end makes no directory of what follows it.
    Prepend(std::string(text.data(), static_cast<size_t>(size)));
    return kGoOn;
  }

  int OpenLast(const std::string& name, int flags) {
    const int fd = openat(here(), name.c_str(), flags | O_NOFOLLOW, mode_);
    const bool may_be_link = (flags_ & O_NOFOLLOW) != 0;
    if (fd < 0) {
      const int error = errno;
      // Somebody has put a link there since.
      return error == ELOOP && !may_be_link ? Race() : -error;
    }
    if ((flags & O_PATH) == 0 || may_be_link) return fd;
    struct stat info = {};
    if (fstat(fd, &info) == 0 && !S_ISLNK(info.st_mode)) return fd;
    close(fd);
    return Race();
  }

  // Looks at the name again.
  int Race() { return ++races_ > kMostRaces ? -EAGAIN : kGoOn; }

  const int root_;
  const int flags_;
  const mode_t mode_;
  std::deque<std::string> names_;  // that are left
  std::vector<UniqueFd> above_;    // the directories from the root to here
  int links_ = 0;
  int races_ = 0;
};

}  // namespace

int WalkBeneath(int root, const std::string& path, int flags, mode_t mode) {
  return Walk(root, flags, mode).Open(path);
}

}  // namespace ringmaster
