#include "worker/supervisor/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "worker/supervisor/child_exit.h"
#include "worker/supervisor/signal_pipe.h"
#include "worker/supervisor/slot.h"

namespace ringmaster {
namespace {

// What a shell gives for a program that cannot be run.
constexpr int kCannotExec = 126;

// In a new child: becomes the program, or ends. Other threads may have held
// any lock at the fork, so nothing here allocates.
[[noreturn]] void Become(const char* program, char* const* argv, pid_t parent) {
  // SIGKILL, because a child must not outlive its supervisor for as long as a
  // polite leave may take.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kRetryElsewhere));
  setpgid(0, 0);
  execv(program, argv);
  _exit(kCannotExec);
}

}  // namespace

Supervisor::Supervisor(Clock& clock, SupervisorOptions options)
    : clock_(clock), options_(std::move(options)) {}

ExitCode Supervisor::Run() {
  SignalPipe signals({SIGTERM, SIGINT, SIGCHLD});
  bool has_failed_to_start = false;
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    if (const absl::Status status = Start(slot); !status.ok()) {
      LogEvent(LogLevel::kError, "worker.not_started", {{"cause", status}});
      has_failed_to_start = true;
      Signal(SIGTERM);
      break;
    }
  }
  while (IsAnyRunning()) {
    const std::optional<int> signal = signals.Next(
        kill_at_ ? *kill_at_ - clock_.Now() : absl::InfiniteDuration());
    if (signal == SIGTERM || signal == SIGINT) Signal(*signal);
    Reap();
    if (kill_at_ && clock_.Now() >= *kill_at_) Signal(SIGKILL);
  }
  std::vector<ExitCode> codes;
  for (const Child& child : children_) codes.push_back(child.exit_code);
  if (has_failed_to_start) codes.push_back(ExitCode::kRetryElsewhere);
  // Children that had done their part before the signal do not make it less of
  // a stop.
  if (is_stopping_) codes.push_back(ExitCode::kStopped);
  return WorstExitCode(codes);
}

absl::Status Supervisor::Start(int slot) {
  std::string slot_flag = absl::StrCat("--slot=", slot);
  std::vector<char*> argv = {const_cast<char*>("worker"), slot_flag.data()};
  for (const std::string& argument : options_.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  // Blocked over the fork: the handlers, until they are replaced by exec, would
  // write the child's signals to the parent's pipe.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) {
      std::signal(signal, SIG_DFL);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    Become(options_.program.c_str(), argv.data(), parent);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("fork: ", std::strerror(error)));
  }
  Child child;
  child.slot = slot;
  child.pid = pid;
  children_.push_back(child);
  LogEvent(LogLevel::kInfo, "worker.started",
           {{"name", SlotName(options_.name, slot, options_.slot_count)},
            {"pid", pid}});
  return absl::OkStatus();
}

void Supervisor::Reap() {
  for (Child& child : children_) {
    int status = 0;
    if (!child.is_running || waitpid(child.pid, &status, WNOHANG) <= 0) {
      continue;
    }
    child.is_running = false;
    child.exit_code = ChildExitCode(status, is_stopping_);
    const bool is_wanted = child.exit_code == ExitCode::kDone ||
                           child.exit_code == ExitCode::kStopped;
    LogEvent(
        is_wanted ? LogLevel::kInfo : LogLevel::kError, "worker.ended",
        {{"name", SlotName(options_.name, child.slot, options_.slot_count)},
         {"pid", child.pid},
         {"cause", DescribeChildExit(status)}});
  }
}

void Supervisor::Signal(int signal) {
  if (!is_stopping_) {
    is_stopping_ = true;
    kill_at_ = clock_.Now() + options_.kill_after;
  }
  if (signal == SIGKILL) {
    LogEvent(LogLevel::kError, "worker.killed",
             {{"cause", "did not end after the stop signal"},
              {"after", options_.kill_after}});
    kill_at_ = std::nullopt;
  }
  for (const Child& child : children_) {
    if (child.is_running) kill(child.pid, signal);
  }
}

bool Supervisor::IsAnyRunning() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.is_running; });
}

}  // namespace ringmaster
