// ProgramFlags: the flags that all long-running binaries have in common, for
// logging, monitoring and ending with the process that started them, and their
// effects. Not thread-safe; used once, at the start of main.
#ifndef RINGMASTER_COMMON_PROGRAM_PROGRAM_FLAGS_H_
#define RINGMASTER_COMMON_PROGRAM_PROGRAM_FLAGS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/config/flags.h"
#include "common/logging/log_file.h"
#include "common/logging/logging.h"

namespace ringmaster {

struct ProgramFlags {
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  int log_max_mb = 100;
  int log_max_files = 5;
  int log_kept = kDefaultKeptLogLines;
  bool die_with_parent = false;
};

// Adds the flags to `set` in groups of their own, with the values in `flags` as
// their defaults.
void AddProgramFlags(FlagSet& set, ProgramFlags& flags);

// The addresses at which a program can be monitored (monitoring.h): HOST:PORT;
// empty: none.
struct MonitoringFlags {
  std::string metrics_listen;
  std::string health_listen;
};

// Adds them. `ready` completes "whether it ...".
void AddMonitoringFlags(std::string_view ready, FlagSet& set,
                        MonitoringFlags& flags);

// The log's file; without a path if there is none.
[[nodiscard]] LogFileOptions LogFileOf(const ProgramFlags& flags);

// Makes the process log as the flags say; every line carries `role` and
// `worker` (SetLogIdentity). With a file, SIGHUP makes it go on in the one that
// has its name then; it must be called before the process has further threads.
// INVALID_ARGUMENT: an unknown level or format, or the file cannot be opened.
[[nodiscard]] absl::Status StartLog(const ProgramFlags& flags,
                                    std::string_view role,
                                    std::string_view worker);

// With --die_with_parent: asks the kernel to send SIGTERM to the calling
// process when the thread that started it ends, or now if it has ended already.
// INTERNAL if the kernel refuses.
[[nodiscard]] absl::Status FollowParent(const ProgramFlags& flags);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROGRAM_PROGRAM_FLAGS_H_
