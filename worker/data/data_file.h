// The tools that readers of data files share: files mapped into memory, files
// read as a whole, and errors that name the path.
#ifndef RINGMASTER_WORKER_DATA_DATA_FILE_H_
#define RINGMASTER_WORKER_DATA_DATA_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {

// "cannot read PATH: why" for an errno.
//   NOT_FOUND          nothing is there
//   PERMISSION_DENIED  it may not be read; with IsOutsideRoots for EXDEV, which is
//                      that of ProcessFiles (common/files/file_roots.h)
//   INVALID_ARGUMENT   anything else
[[nodiscard]] absl::Status FileError(const std::string& path, int error);

// OK, or why `cancel` was cancelled. Null is never cancelled.
[[nodiscard]] absl::Status CheckNotCancelled(const CancelToken* cancel);

// A regular file, mapped read-only: the kernel reads its pages when they are
// first touched and may drop them again, so a file may be larger than memory.
//
// Thread-safety: immutable. Not guaranteed: anything, once another process
// shortens the file; a file in use must be replaced, not rewritten.
class MappedFile {
 public:
  MappedFile() = default;
  // FileError's codes; INVALID_ARGUMENT if it is not a regular file.
  [[nodiscard]] static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  // Tells the kernel the order of the next reads, and so how much to read
  // ahead. For reads in random order from a file larger than memory, reading
  // ahead would be most of the work and of no use.
  enum class ReadOrder { kSequential, kRandom };
  void Expect(ReadOrder order) const;

  // Aligned to a page.
  absl::Span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(address_), size_};
  }

 private:
  void* address_ = nullptr;  // null for an empty file
  size_t size_ = 0;
};

// The bytes of a regular file of at most `max_bytes`, by reads rather than a
// mapping: a disk that fails is then an error and not a signal. FileError's
// codes; INVALID_ARGUMENT if there is more, or if it is not a regular file.
[[nodiscard]] absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                                        int64_t max_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATA_FILE_H_
