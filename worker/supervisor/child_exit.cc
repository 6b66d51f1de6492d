#include "worker/supervisor/child_exit.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringmaster {

ExitCode ChildExitCode(int wait_status) {
  if (WIFEXITED(wait_status)) {
    const int code = WEXITSTATUS(wait_status);
    for (const ExitCodeMeaning& meaning : kExitCodes) {
      if (static_cast<int>(meaning.code) == code) return meaning.code;
    }
    return ExitCode::kInternal;
  }
  switch (WTERMSIG(wait_status)) {
    case SIGTERM:
    case SIGINT:
      return ExitCode::kStopped;
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSEGV:
    case SIGSYS:
    case SIGTRAP:
      return ExitCode::kInternal;
    default:
      return ExitCode::kRetryElsewhere;
  }
}

ChildEnd KindOfChildEnd(int wait_status) {
  switch (ChildExitCode(wait_status)) {
    case ExitCode::kDone:
    case ExitCode::kStopped:
      return ChildEnd::kWanted;
    case ExitCode::kUsage:
    case ExitCode::kPlanMismatch:
    case ExitCode::kCheckpointCorrupt:
    case ExitCode::kUnreadable:
      return ChildEnd::kPermanent;
    case ExitCode::kInternal:
      return ChildEnd::kCrash;
    case ExitCode::kRetryElsewhere:
      break;
  }
  return ChildEnd::kFromOutside;
}

std::string PredecessorText(int64_t pid, int wait_status) {
  return absl::StrCat(
      pid, ":", WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0, ":",
      WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0);
}

std::string DescribeChildExit(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("signal ", signal, " (", sigdescr_np(signal), ")");
}

ExitCode WorstExitCode(std::span<const ExitCode> codes) {
  ExitCode worst = ExitCode::kDone;
  for (const ExitCode code : codes) {
    if (code == ExitCode::kDone) continue;
    if (worst == ExitCode::kDone || code < worst) worst = code;
  }
  return worst;
}

}  // namespace ringmaster
