#include "server/ctl/doctor/shared_memory.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/shared_segment.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr const char* kDevShm = "/dev/shm";
constexpr size_t kSegmentBytes = 1 << 20;
// The memory that NCCL takes for a handful of ranks; Docker gives 64 MiB.
constexpr int64_t kLeastDevShmBytes = int64_t{256} << 20;

// Why a megabyte cannot be written to /dev/shm, or "". The file has no name.
std::string WriteError() {
  const UniqueFd file(::open(kDevShm, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) return std::strerror(errno);
  const int error = ::posix_fallocate(file.get(), 0, kSegmentBytes);
  return error == 0 ? "" : std::strerror(error);
}

// A loopback listener has the Unix socket beside it that peers of this host
// use.
absl::Status UnixSocketStatus() {
  const absl::StatusOr<Listener> listener = Listener::Listen("127.0.0.1:0");
  if (!listener.ok()) return listener.status();
  return listener->unix_status();
}

Finding SegmentFinding(const absl::Status& status) {
  if (status.ok())
    return Good("shared memory", "memfds can be made and sealed");
  return Warn("shared memory", std::string(status.message()),
              "ranks of this host fall back to sockets, which are slower",
              "allow memfd_create(2) in the container's seccomp profile, or "
              "raise the limit that the message names");
}

Finding UnixSocketFinding(const absl::Status& status) {
  if (status.ok()) return Good("Unix sockets", "abstract names can be taken");
  return Warn("Unix sockets", std::string(status.message()),
              "ranks of this host fall back to TCP, and cannot share memory",
              "allow sockets of family AF_UNIX in this container");
}

Finding DevShmFinding(const SharedMemoryFacts& facts) {
  const std::string size =
      facts.dev_shm_bytes < 0
          ? "there is none"
          : absl::StrCat(FormatBytes(facts.dev_shm_free_bytes), " free of ",
                         FormatBytes(facts.dev_shm_bytes));
  const std::string what =
      facts.dev_shm_error.empty()
          ? size
          : absl::StrCat(size, "; it cannot be written: ", facts.dev_shm_error);
  if (!facts.is_cuda_wanted)
    return Good(kDevShm, absl::StrCat(what, " (only NCCL uses it)"));
  const std::string remedy =
      "remove what is in it, or make it larger: docker run --shm-size=1g, a "
      "volume emptyDir with medium Memory, mount -o remount,size=1g /dev/shm";
  if (facts.dev_shm_bytes < 0 || !facts.dev_shm_error.empty()) {
    return Fail(kDevShm, what,
                "NCCL puts its buffers there and ends with a system error",
                remedy);
  }
  if (facts.dev_shm_free_bytes < kLeastDevShmBytes) {
    return Warn(kDevShm, what,
                "NCCL takes some 10 MB for each of its connections, and fails "
                "where it runs out",
                remedy);
  }
  return Good(kDevShm, what);
}

}  // namespace

SharedMemoryFacts GatherSharedMemoryFacts(bool is_cuda_wanted) {
  SharedMemoryFacts facts{
      .segment =
          SharedSegment::Create("ringmaster-doctor", kSegmentBytes).status(),
      .unix_socket = UnixSocketStatus(),
      .dev_shm_error = {},
      .is_cuda_wanted = is_cuda_wanted};
  struct statvfs system {};
  if (::statvfs(kDevShm, &system) == 0) {
    const auto block = static_cast<int64_t>(system.f_frsize);
    facts.dev_shm_bytes = static_cast<int64_t>(system.f_blocks) * block;
    facts.dev_shm_free_bytes = static_cast<int64_t>(system.f_bavail) * block;
    facts.dev_shm_error = WriteError();
  }
  return facts;
}

std::vector<Finding> SharedMemoryFindings(const SharedMemoryFacts& facts) {
  return {SegmentFinding(facts.segment), UnixSocketFinding(facts.unix_socket),
          DevShmFinding(facts)};
}

}  // namespace ringmaster::ctl
