// The findings of `ringctl doctor` about a directory that a program shall write
// to.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_DISK_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_DISK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

struct DiskFacts {
  // The directory, or the nearest above it that is there.
  std::string path;
  bool is_there = false;      // the directory itself
  bool is_in_memory = false;  // tmpfs: gone with the machine
  std::string error;          // why a file cannot be written there, or ""
  bool is_full = false;       // that is why
  int64_t free_bytes = -1;    // -1: not known
  absl::Duration sync = absl::InfiniteDuration();  // fsync of 64 KiB
};

// Writes a file without a name (O_TMPFILE, or one that it removes) and syncs
// it; makes no directory. As slow as the disk.
[[nodiscard]] DiskFacts GatherDiskFacts(const std::string& directory);

// `check` is the flag that names the directory; a journal (of --state_dir) is
// synced at each decision. Pure.
[[nodiscard]] Finding DiskFinding(std::string_view check, bool is_journal,
                                  const DiskFacts& facts);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_DISK_H_
