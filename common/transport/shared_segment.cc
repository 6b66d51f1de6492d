#include "common/transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/machine/memory_limits.h"

namespace ringmaster {
namespace {
constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

absl::Status Exhausted(const char* call, size_t bytes, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " for ", bytes,
                   " bytes of shared memory failed: ", strerror(error)));
}

}  // namespace

SharedMapping::~SharedMapping() {
  if (at_ != nullptr) munmap(at_, bytes_);
}

absl::StatusOr<SharedSegment> SharedSegment::Create(const std::string& name,
                                                    size_t bytes) {
  // Pages come when they are first touched, and a process that asks for more
  // than there is would be killed then.
  if (const int64_t available = AvailableMemoryBytes();
      available >= 0 && bytes > static_cast<size_t>(available)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes of shared memory are not to be had: ", available,
        " bytes of memory are available"));
  }
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) return Exhausted("memfd_create", bytes, errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return Exhausted("ftruncate", bytes, errno);
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return Exhausted("mmap", bytes, errno);
  SharedMapping mapping(at, bytes);
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("this kernel cannot seal shared memory against others' "
                     "writes (Linux 5.1 can): ",
                     strerror(errno)));
  }
  return SharedSegment(std::move(fd), std::move(mapping));
}

bool SharedSegment::Contains(const std::byte* from, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(at());
  const auto at = reinterpret_cast<uintptr_t>(from);
  return at >= begin && at - begin <= this->bytes() &&
         bytes <= this->bytes() - (at - begin);
}

absl::StatusOr<PeerSegment> PeerSegment::Map(UniqueFd fd, size_t bytes) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the descriptor is no memfd (F_GET_SEALS: ", strerror(errno), ")"));
  }
  if ((seals & kSeals) != kSeals) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the memfd has seals ", seals, "; ", kSeals,
        " are needed, so that it keeps its size and only its owner writes"));
  }
  struct stat state;
  if (fstat(fd.get(), &state) != 0) return Exhausted("fstat", bytes, errno);
  if (bytes == 0 || static_cast<size_t>(state.st_size) < bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the memfd has ", state.st_size, " bytes; ", bytes, " were announced"));
  }
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return Exhausted("mmap", bytes, errno);
  return PeerSegment(static_cast<const std::byte*>(at), bytes,
                     SharedMapping(at, bytes));
}

}  // namespace ringmaster
