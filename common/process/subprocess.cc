#include "common/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process/pipe.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr unsigned kCloseRangeCloexec = 4;  // linux/close_range.h

absl::Status StartError(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC)
    return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

void AppendPointers(const std::vector<std::string>& texts,
                    std::vector<char*>& pointers) {
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
}

void ResetSignals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGCHLD})
    ::signal(signal, SIG_DFL);
}

struct Child {
  pid_t parent = 0;
  int directory = -1;
  int in = -1;
  int out = -1;
  int error = -1;
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
};

// Runs in the child: turns it into the program, or returns why not. Only
// async-signal-safe calls, since other threads of the parent may hold any lock
// (fork(2)).
int BecomeProgram(const Child& child) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  // The parent may have ended before the line above took effect.
  if (::getppid() != child.parent) ::_exit(128 + SIGKILL);
  ResetSignals();
  if (child.directory >= 0 && ::fchdir(child.directory) != 0) return errno;
  const int in =
      child.in >= 0 ? child.in : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || ::dup2(in, STDIN_FILENO) < 0) return errno;
  if (::dup2(child.out, STDOUT_FILENO) < 0 ||
      ::dup2(child.error, STDERR_FILENO) < 0)
    return errno;
  // Nothing of ours, also not what a library has opened without the flag.
  (void)::syscall(SYS_close_range, 3, ~0U, kCloseRangeCloexec);
  ::execve(child.program, child.arguments, child.environment);
  return errno;
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd log(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log.is_open())
    return StartError(errno, absl::StrCat("cannot open the log file ", path));
  return log;
}

}  // namespace

absl::StatusOr<Subprocess> Subprocess::Start(const Command& command) {
  UniqueFd log;
  if (command.out < 0 || command.error < 0) {
    ASSIGN_OR_RETURN(log, OpenLog(command.log_file));
  }
  // Tells why the program could not be started; closed by a successful exec.
  ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  const std::string& name =
      command.name.empty() ? command.program : command.name;
  std::vector<char*> arguments = {const_cast<char*>(name.c_str())};
  AppendPointers(command.arguments, arguments);
  std::vector<char*> environment;
  if (command.environment.has_value())
    AppendPointers(*command.environment, environment);
  const Child child{
      .parent = ::getpid(),
      .directory = command.directory,
      .in = command.in,
      .out = command.out < 0 ? log.get() : command.out,
      .error = command.error < 0 ? log.get() : command.error,
      .program = command.program.c_str(),
      .arguments = arguments.data(),
      .environment = environment.empty() ? environ : environment.data()};
  const std::string what = absl::StrCat("cannot start ", command.program);

  const pid_t pid = ::fork();
  if (pid < 0) return StartError(errno, what);
  if (pid == 0) {
    const int error = BecomeProgram(child);
    (void)!::write(failure.write.get(), &error, sizeof(error));
    ::_exit(127);
  }
  // In both processes, so that the group exists before either uses it.
  ::setpgid(pid, pid);
  Subprocess process(pid);
  process.pidfd_ =
      UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_.is_open()) return StartError(errno, "pidfd_open");
  failure.write.Reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.read.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error)) return StartError(error, what);
  return process;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      end_(std::exchange(other.end_, std::nullopt)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(end_, other.end_);
  return *this;
}

Subprocess::~Subprocess() { Kill(); }

std::optional<SubprocessEnd> Subprocess::End() {
  if (end_.has_value() || pid_ < 0) return end_;
  siginfo_t info{};
  int result = 0;
  do {
    // Looks without reaping: until Kill, the number stays this child's and its
    // group's.
    result = ::waitid(P_PID, static_cast<id_t>(pid_), &info,
                      WEXITED | WNOHANG | WNOWAIT);
  } while (result < 0 && errno == EINTR);
  if (result == 0 && info.si_pid == pid_) {
    end_ = info.si_code == CLD_EXITED
               ? SubprocessEnd{.exit_code = info.si_status}
               : SubprocessEnd{.signal = info.si_status};
  }
  return end_;
}

std::optional<int> Subprocess::ExitCode() {
  const std::optional<SubprocessEnd> end = End();
  return end.has_value() ? std::optional(end->code()) : std::nullopt;
}

std::optional<int> Subprocess::Wait(absl::Duration limit) {
  if (const std::optional<int> code = ExitCode(); code.has_value()) return code;
  pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  const auto milliseconds =
      std::clamp<int64_t>(absl::ToInt64Milliseconds(limit), 0, INT_MAX);
  (void)::poll(&ended, 1, static_cast<int>(milliseconds));
  return ExitCode();
}

void Subprocess::Signal(int signal) {
  if (pid_ > 0) ::kill(pid_, signal);
}

void Subprocess::Kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) <
             0 &&
         errno == EINTR) {
  }
  (void)End();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace ringmaster
