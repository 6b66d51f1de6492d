#include "common/program/program_flags.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"

namespace ringmaster {

namespace {

void ReopenLogOnHangup() {
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  // Threads that are started later leave it to the one below.
  pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
  static std::once_flag is_started;
  std::call_once(is_started, [hangup] {
    // Lives as long as the log: until the process ends.
    std::thread([hangup] {
      int signal = 0;
      while (sigwait(&hangup, &signal) == 0) {
        if (const absl::Status status = ReopenLogFile(); !status.ok()) {
          LogEvent(LogLevel::kError, "log.not_reopened",
                   {{"message", std::string(status.message())}});
        }
      }
    }).detach();
  });
}

}  // namespace

void AddProgramFlags(FlagSet& set, ProgramFlags& flags) {
  set.StartGroup("Log");
  set.Add({.name = "log_level",
           .help = "Least level that is logged.",
           .choices = {"debug", "info", "warning", "error"}},
          &flags.log_level);
  set.Add({.name = "log_format",
           .help = "Form of the lines on stderr and in --log_file.",
           .choices = {"text", "json"}},
          &flags.log_format);
  set.Add({.name = "log_file",
           .unit = "FILE",
           .help = "Append the log to this file too. After SIGHUP it goes on "
                   "in the file that has the name then."},
          &flags.log_file);
  set.Add({.name = "log_max_mb",
           .unit = "MB",
           .help = "A log file of this size is renamed to FILE.1, one that "
                   "had this name to FILE.2, and so on. 0: it is not.",
           .min = 0,
           .max = 1'000'000},
          &flags.log_max_mb);
  set.Add({.name = "log_max_files",
           .unit = "N",
           .help = "Renamed log files that are kept.",
           .min = 1,
           .max = 1000},
          &flags.log_max_files);
  set.Add({.name = "log_kept",
           .unit = "LINES",
           .help = "Last lines that are kept in memory for `ringctl logs`: so "
                   "many, or fewer if they are longer than 128 bytes on "
                   "average. 0: none.",
           .min = 0,
           .max = 100'000},
          &flags.log_kept);
  set.StartGroup("For programs that start this one");
  set.Add({.name = "die_with_parent",
           .help = "End, as after SIGTERM, when the parent process ends."},
          &flags.die_with_parent);
}

void AddMonitoringFlags(std::string_view ready, FlagSet& set,
                        MonitoringFlags& flags) {
  set.StartGroup("Monitoring (clear text; not served unless set)");
  set.Add({.name = "metrics_listen",
           .unit = "HOST:PORT",
           .help = "Where Prometheus reads metrics: GET /metrics over HTTP. "
                   "Port 0 takes any free one, which is in the log; with "
                   "several slots, slot K takes PORT+K."},
          &flags.metrics_listen);
  set.Add({.name = "health_listen",
           .unit = "HOST:PORT",
           .help = absl::StrCat(
               "Where probes ask for health (grpc.health.v1), and for nothing "
               "else: service \"\" says that the process lives, service "
               "\"ready\" whether it ",
               absl::string_view(ready.data(), ready.size()), ".")},
          &flags.health_listen);
}

LogFileOptions LogFileOf(const ProgramFlags& flags) {
  return {.path = flags.log_file,
          .max_bytes = int64_t{flags.log_max_mb} << 20,
          .max_rotated = flags.log_max_files};
}

absl::Status StartLog(const ProgramFlags& flags, std::string_view role,
                      std::string_view worker) {
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(flags.log_level));
  ASSIGN_OR_RETURN(const LogFormat format, ParseLogFormat(flags.log_format));
  const LogFileOptions file = LogFileOf(flags);
  RETURN_IF_ERROR(InitLogging({.level = level,
                               .format = format,
                               .file = file.path,
                               .file_max_bytes = file.max_bytes,
                               .file_max_rotated = file.max_rotated,
                               .kept_lines = flags.log_kept}));
  SetLogIdentity(role, worker);
  if (!flags.log_file.empty()) ReopenLogOnHangup();
  return absl::OkStatus();
}

absl::Status FollowParent(const ProgramFlags& flags) {
  if (!flags.die_with_parent) return absl::OkStatus();
  const pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
    return absl::InternalError("cannot follow the parent process");
  }
  // It may have ended just before.
  if (getppid() != parent) raise(SIGTERM);
  return absl::OkStatus();
}

}  // namespace ringmaster
