#include "server/ctl/local/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {
namespace {

absl::Status StartError(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC)
    return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// Runs in the child: turns it into the program, or returns why not. Only
// async-signal-safe calls, since other threads of the parent may hold any lock
// (fork(2)).
int BecomeProgram(pid_t parent, int log, const char* program,
                  char* const* arguments) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  // The parent may have ended before the line above took effect.
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT})
    ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) return errno;
  if (::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0)
    return errno;
  ::execv(program, arguments);
  return errno;
}

std::vector<char*> ArgumentVector(const Command& command) {
  std::vector<char*> arguments = {const_cast<char*>(command.program.c_str())};
  for (const std::string& argument : command.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// Closes the descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<Subprocess> Subprocess::Start(const Command& command) {
  Descriptor log(::open(command.log_file.c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (log.get() < 0)
    return StartError(
        errno, absl::StrCat("cannot open the log file ", command.log_file));
  // Tells why the program could not be started; closed by a successful exec.
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return StartError(errno, "cannot make a pipe");
  Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const std::vector<char*> arguments = ArgumentVector(command);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return StartError(errno, absl::StrCat("cannot start ", command.program));
  if (pid == 0) {
    const int error = BecomeProgram(parent, log.get(), command.program.c_str(),
                                    arguments.data());
    (void)!::write(writer.get(), &error, sizeof(error));
    ::_exit(127);
  }
  // In both processes, so that the group exists before either uses it.
  ::setpgid(pid, pid);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  Subprocess child(pid, pidfd);
  if (pidfd < 0) return StartError(errno, "pidfd_open");
  writer.Close();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(reader.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error))
    return StartError(error, absl::StrCat("cannot start ", command.program));
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)),
      exit_code_(std::exchange(other.exit_code_, std::nullopt)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Subprocess::~Subprocess() {
  Kill();
  if (pidfd_ >= 0) ::close(pidfd_);
}

std::optional<int> Subprocess::ExitCode() {
  if (exit_code_.has_value() || pid_ < 0) return exit_code_;
  siginfo_t info{};
  int result = 0;
  do {
    // Looks without reaping: until Kill, the number stays this child's and its
    // group's.
    result = ::waitid(P_PID, static_cast<id_t>(pid_), &info,
                      WEXITED | WNOHANG | WNOWAIT);
  } while (result < 0 && errno == EINTR);
  if (result == 0 && info.si_pid == pid_) {
    exit_code_ =
        info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  }
  return exit_code_;
}

std::optional<int> Subprocess::Wait(absl::Duration limit) {
  if (const std::optional<int> code = ExitCode(); code.has_value()) return code;
  pollfd ended{.fd = pidfd_, .events = POLLIN, .revents = 0};
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
  (void)ExitCode();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace ringmaster::ctl
