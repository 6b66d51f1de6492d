// SharedSegment is memory that one process writes and others only read;
// PeerSegment is such memory of another process.
//
// It is a memfd (Linux >= 5.1): it has no name in the file system and is freed
// with its last user, however that process ends. Before it is given away it is
// sealed: nobody can change its size, which would kill readers with SIGBUS, and
// nobody but its creator can write to it. Its pages
// come when they are first touched, like those of the heap: a generation of n
// ranks makes n(n-1) segments, of which an algorithm uses few, and recovery
// must not wait for all of them to be zeroed.
// Thread-compatible; what the memory holds is up to its users.
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARED_SEGMENT_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARED_SEGMENT_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// A mapping of memory; unmaps it at its end.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(void* at, size_t bytes) : at_(at), bytes_(bytes) {}
  SharedMapping(SharedMapping&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMapping();

  [[nodiscard]] void* at() const { return at_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

class SharedSegment {
 public:
  // `bytes` (> 0) of zeroes; /proc/PID/maps shows `name`.
  //   RESOURCE_EXHAUSTED  more than the host has available, no descriptor, or
  //   another limit of the host; a limit of the control group is not seen: the
  //   kernel ends processes above it
  //   UNIMPLEMENTED       the kernel cannot seal it
  [[nodiscard]] static absl::StatusOr<SharedSegment> Create(
      const std::string& name, size_t bytes);

  [[nodiscard]] std::byte* at() const {
    return static_cast<std::byte*>(mapping_.at());
  }
  [[nodiscard]] size_t bytes() const { return mapping_.bytes(); }
  // To give to others, who can map it only for reading.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // For a segment that nobody else will be given.
  void CloseFd() { fd_.Reset(); }

  // Returns true if [from, from + bytes) lies inside.
  [[nodiscard]] bool Contains(const std::byte* from, size_t bytes) const;

 private:
  SharedSegment(UniqueFd fd, SharedMapping mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  SharedMapping mapping_;
};

class PeerSegment {
 public:
  // Maps the first `bytes` (> 0) of `fd`, a SharedSegment's of another process,
  // for reading.
  //   FAILED_PRECONDITION  it is none: no memfd, not sealed, or smaller
  //   RESOURCE_EXHAUSTED   this process cannot map it
  [[nodiscard]] static absl::StatusOr<PeerSegment> Map(UniqueFd fd,
                                                       size_t bytes);

  // `segment` itself, for a peer in the same process; it must outlive this.
  // ThreadSanitizer then sees both sides at the same addresses.
  [[nodiscard]] static PeerSegment ViewOf(const SharedSegment& segment) {
    return PeerSegment(segment.at(), segment.bytes(), SharedMapping());
  }

  // A reader must expect any content, and that it changes at any time.
  [[nodiscard]] const std::byte* at() const { return at_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  PeerSegment(const std::byte* at, size_t bytes, SharedMapping mapping)
      : at_(at), bytes_(bytes), mapping_(std::move(mapping)) {}

  const std::byte* at_;
  size_t bytes_;
  SharedMapping mapping_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARED_SEGMENT_H_
