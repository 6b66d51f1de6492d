#include "worker/checkpoint/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/file_error.h"
#include "xxhash.h"

namespace ringmaster {

namespace {

// The limit of one read, so that a slow one shows progress.
constexpr size_t kMaxReadBytes = size_t{4} << 20;

}  // namespace

InputFile::InputFile(const std::string& path, UniqueFd fd, int64_t size_bytes,
                     DiskProgress* progress)
    : path_(path),
      fd_(std::move(fd)),
      size_bytes_(size_bytes),
      progress_(progress) {}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path,
                                          DiskProgress* progress) {
  UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY);
  if (!fd.is_open()) return FileError("open", path, errno);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return FileError("read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  }
  return InputFile(path, std::move(fd), status.st_size, progress);
}

absl::Status InputFile::ReadAt(int64_t offset, absl::Span<uint8_t> into) const {
  while (!into.empty()) {
    const ssize_t count = pread(fd_.get(), into.data(),
                                std::min(into.size(), kMaxReadBytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("read", path_, errno);
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(
          path_, " is cut short: it ends at byte ", offset, ", where bytes [",
          offset, ", ", offset + static_cast<int64_t>(into.size()),
          ") should follow"));
    }
    into.remove_prefix(static_cast<size_t>(count));
    offset += count;
    if (progress_ != nullptr) progress_->Add(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> InputFile::ReadText(int64_t max_bytes) const {
  if (size_bytes_ > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is ", size_bytes_, " bytes long, over ",
                     max_bytes, ", the most that such a file may have"));
  }
  std::string text(static_cast<size_t>(size_bytes_), '\0');
  RETURN_IF_ERROR(ReadAt(
      0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
  return text;
}

absl::Status InputFile::CheckAgainst(const FileDigest& expected,
                                     const CancelToken* cancel) const {
  if (size_bytes_ != expected.size_bytes) {
    const int64_t begin = std::min(size_bytes_, expected.size_bytes);
    const int64_t end = std::max(size_bytes_, expected.size_bytes);
    return absl::DataLossError(absl::StrCat(
        path_, " is ", size_bytes_, " bytes long, but was written with ",
        expected.size_bytes, ": bytes [", begin, ", ", end, ") are ",
        size_bytes_ < expected.size_bytes ? "missing" : "too many"));
  }
  std::vector<uint8_t> block(
      static_cast<size_t>(std::min(size_bytes_, kDigestBlockBytes)));
  int64_t begin = 0;
  for (const uint64_t hash : expected.block_hashes) {
    if (cancel != nullptr) RETURN_IF_ERROR(cancel->status());
    const auto bytes = absl::MakeSpan(block).first(
        static_cast<size_t>(std::min(kDigestBlockBytes, size_bytes_ - begin)));
    RETURN_IF_ERROR(ReadAt(begin, bytes));
    const int64_t end = begin + static_cast<int64_t>(bytes.size());
    if (XXH3_64bits(bytes.data(), bytes.size()) != hash) {
      return absl::DataLossError(
          absl::StrCat(path_, " is damaged: bytes [", begin, ", ", end,
                       ") are not those that were written"));
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
