#include "server/ctl/doctor/disk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/transport/unique_fd.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProbeBytes = 64 << 10;
constexpr int64_t kNotedFreeBytes = int64_t{1} << 30;
constexpr absl::Duration kSlowSync = absl::Milliseconds(100);

fs::path NearestThatIsThere(fs::path path) {
  std::error_code error;
  while (!fs::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

// Some file systems (NFS, overlays) know no files without a name.
UniqueFd NewFile(const std::string& directory) {
  UniqueFd file(
      ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open() || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = directory + "/.ringmaster-doctor-XXXXXX";
  UniqueFd named(::mkostemp(name.data(), O_CLOEXEC));
  const int error = errno;
  if (named.is_open()) (void)::unlink(name.c_str());
  errno = error;
  return named;
}

// The errno, 0 for success.
int WriteAndSync(const std::string& directory, absl::Duration& sync) {
  const UniqueFd file = NewFile(directory);
  if (!file.is_open()) return errno;
  const std::string bytes(kProbeBytes, 'x');
  const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
  if (written < 0) return errno;
  if (written < static_cast<ssize_t>(bytes.size())) return ENOSPC;
  const MonotonicTime start = Clock::Real().Now();
  if (::fsync(file.get()) != 0) return errno;
  sync = Clock::Real().Now() - start;
  return 0;
}

}  // namespace

DiskFacts GatherDiskFacts(const std::string& directory) {
  std::error_code error;
  const fs::path wanted = fs::absolute(directory, error);
  DiskFacts facts;
  facts.path = NearestThatIsThere(wanted).string();
  facts.is_there = fs::exists(wanted, error);
  if (!fs::is_directory(facts.path, error)) {
    facts.error = "it is no directory";
    return facts;
  }
  struct statfs system {};
  if (::statfs(facts.path.c_str(), &system) == 0) {
    facts.free_bytes = static_cast<int64_t>(system.f_bavail) *
                       static_cast<int64_t>(system.f_bsize);
    facts.is_in_memory = system.f_type == TMPFS_MAGIC;
  }
  const int failure = WriteAndSync(facts.path, facts.sync);
  facts.is_full = failure == ENOSPC || failure == EDQUOT;
  if (failure != 0) facts.error = std::strerror(failure);
  return facts;
}

Finding DiskFinding(std::string_view check, bool is_journal,
                    const DiskFacts& facts) {
  std::string what =
      facts.is_there
          ? facts.path
          : absl::StrCat("not there yet, to be made under ", facts.path);
  if (!facts.error.empty()) {
    return Fail(check, absl::StrCat(what, ": ", facts.error),
                is_journal ? "the coordinator cannot start"
                           : "a job with this directory ends with its first "
                             "checkpoint",
                facts.is_full
                    ? "make room on this disk, or name another directory"
                    : "name a directory that the programs' user may write to",
                facts.is_full ? ExitCode::kRetryElsewhere : ExitCode::kUsage);
  }
  if (facts.free_bytes >= 0)
    absl::StrAppend(&what, ", ", FormatBytes(facts.free_bytes), " free");
  absl::StrAppend(&what, ", fsync takes ", HumanDuration(facts.sync));
  if (facts.is_in_memory) {
    return Warn(check, absl::StrCat(what, "; it is in memory (tmpfs)"),
                "what is written there is gone when this machine restarts",
                "name a directory on a disk");
  }
  if (facts.free_bytes >= 0 && facts.free_bytes < kNotedFreeBytes) {
    return Warn(check, what, "a full disk loses checkpoints and decisions",
                "make room on this disk, or name another directory");
  }
  if (facts.sync > kSlowSync) {
    return Warn(check, what,
                is_journal ? "each decision of the coordinator waits for that"
                           : "checkpoints take long to be durable",
                "name a directory on a faster disk");
  }
  return Good(check, what);
}

}  // namespace ringmaster::ctl
