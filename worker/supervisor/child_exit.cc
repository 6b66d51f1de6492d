#include "worker/supervisor/child_exit.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringmaster {

ExitCode ChildExitCode(int wait_status, bool was_asked_to_stop) {
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
      return was_asked_to_stop ? ExitCode::kStopped : ExitCode::kRetryElsewhere;
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
