#include "worker/data/data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

absl::Status FileError(const std::string& path, int error) {
  const std::string message =
      absl::StrCat("cannot read ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::Status CheckNotCancelled(const CancelToken* cancel) {
  return cancel == nullptr ? absl::OkStatus() : cancel->status();
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO waits for its writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return FileError(path, errno);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return FileError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is not a regular file"));
  }
  MappedFile file;
  if (status.st_size == 0) return file;
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) return FileError(path, errno);
  file.address_ = address;
  file.size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(address_, size_);
}

void MappedFile::Expect(ReadOrder order) const {
  if (address_ == nullptr) return;
  // Advice: that it is not taken changes nothing but speed.
  (void)madvise(
      address_, size_,
      order == ReadOrder::kSequential ? MADV_SEQUENTIAL : MADV_RANDOM);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          int64_t max_bytes) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::Span<const uint8_t> bytes = file.bytes();
  if (static_cast<int64_t>(bytes.size()) > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it has ", bytes.size(),
                     " bytes, but at most ", max_bytes, " are expected"));
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace ringmaster
