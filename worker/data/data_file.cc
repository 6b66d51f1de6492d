#include "worker/data/data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

absl::Status FileError(const std::string& path, int error) {
  if (error == EXDEV) return ProcessFiles().Refusal(path, FileAccess::kRead);
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

namespace {

struct OpenFile {
  UniqueFd fd;
  int64_t size = 0;
};

absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path) {
  UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY);
  if (!fd.is_open()) return FileError(path, errno);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return FileError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is not a regular file"));
  }
  return OpenFile{std::move(fd), status.st_size};
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile opened, OpenRegularFile(path));
  MappedFile file;
  if (opened.size == 0) return file;
  const auto size = static_cast<size_t>(opened.size);
  void* const address =
      mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.fd.get(), 0);
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
  ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path));
  if (file.size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it has ", file.size,
                     " bytes, but at most ", max_bytes, " are expected"));
  }
  std::string text(static_cast<size_t>(file.size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count =
        read(file.fd.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path, errno);
    if (count == 0) break;  // it has become shorter meanwhile
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

}  // namespace ringmaster
