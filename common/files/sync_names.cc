#include "common/files/sync_names.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace ringmaster {

int SyncNames(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // As file systems answer that do not support it.
  return error == EINVAL || error == EROFS ? 0 : error;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace ringmaster
