#include "worker/external/child_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/external/output_lines.h"

namespace ringmaster {
namespace {

constexpr unsigned kCloseRangeCloexec = 4;  // linux/close_range.h

// A pipe holds no more (pipe(7), pipe-max-size): after so much, all that a dead
// group wrote has been read.
constexpr size_t kMostLeftInPipe = size_t{1} << 20;

absl::Status StartError(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC)
    return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return StartError(errno, "cannot make a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
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
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) return errno;
  if (::dup2(child.out, STDOUT_FILENO) < 0 ||
      ::dup2(child.error, STDERR_FILENO) < 0)
    return errno;
  // Nothing of ours, also not what a library has opened without the flag.
  (void)::syscall(SYS_close_range, 3, ~0U, kCloseRangeCloexec);
  ::execve(child.program, child.arguments, child.environment);
  return errno;
}

// Runs in the keeper, which never returns: waits for the end of the process
// that holds the other end of `pipe`, and kills its own group. Only
// async-signal-safe calls.
[[noreturn]] void Keep(pid_t group, int pipe) {
  ::setpgid(0, group);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    ::signal(signal, SIG_IGN);
  // Connections that it held open would look alive to peers.
  if (::dup2(pipe, 0) < 0) ::_exit(1);
  if (::syscall(SYS_close_range, 1, ~0U, 0) != 0) ::_exit(1);
  ::prctl(PR_SET_NAME, "keeper");
  char byte = 0;
  while (::read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(-group, SIGKILL);
  ::_exit(0);
}

void Reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string CommandEndText(const CommandEnd& end) {
  if (end.signal == 0)
    return absl::StrCat("ended with exit code ", end.exit_code);
  return absl::StrCat("was killed by signal ", end.signal, " (",
                      ::strsignal(end.signal), ")");
}

absl::StatusOr<std::unique_ptr<ChildCommand>> ChildCommand::Start(
    Options options) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  // Tells why the program could not be started; closed by a successful exec.
  ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  const std::vector<char*> arguments = Pointers(options.arguments);
  const std::vector<char*> environment = Pointers(options.environment);
  const Child child{
      ::getpid(),        options.directory,       out.write.get(),
      error.write.get(), options.program.c_str(), arguments.data(),
      environment.data()};
  const std::string what = absl::StrCat("cannot start ", options.program);

  std::unique_ptr<ChildCommand> command(new ChildCommand);
  command->stop_reading_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!command->stop_reading_.is_open()) return StartError(errno, what);
  const pid_t pid = ::fork();
  if (pid < 0) return StartError(errno, what);
  if (pid == 0) {
    const int why = BecomeProgram(child);
    (void)!::write(failure.write.get(), &why, sizeof(why));
    ::_exit(127);
  }
  // In both processes, so that the group exists before either uses it.
  ::setpgid(pid, pid);
  command->pid_ = pid;
  command->pidfd_ =
      UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!command->pidfd_.is_open()) return StartError(errno, "pidfd_open");
  failure.write.Reset();
  out.write.Reset();
  error.write.Reset();
  int why = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.read.get(), &why, sizeof(why));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(why)) return StartError(why, what);
  RETURN_IF_ERROR(command->StartKeeper());
  command->output_[0] = std::move(out.read);
  command->output_[1] = std::move(error.read);
  command->reader_ =
      std::thread([self = command.get(), on_line = std::move(options.on_line)] {
        self->ReadOutput(on_line);
      });
  return command;
}

absl::Status ChildCommand::StartKeeper() {
  ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  const pid_t keeper = ::fork();
  if (keeper < 0) return StartError(errno, "cannot start a keeper");
  if (keeper == 0) Keep(pid_, pipe.read.get());
  ::setpgid(keeper, pid_);
  keeper_ = keeper;
  keeper_pipe_ = std::move(pipe.write);
  return absl::OkStatus();
}

void ChildCommand::ReadOutput(
    const std::function<void(bool is_error, std::string_view line)>& on_line) {
  std::array<LineCutter, 2> cutters = {
      LineCutter([&](std::string_view line) { on_line(false, line); }),
      LineCutter([&](std::string_view line) { on_line(true, line); })};
  std::array<pollfd, 3> ready{};
  for (size_t i = 0; i < 2; ++i) {
    ready[i] = {.fd = output_[i].get(), .events = POLLIN, .revents = 0};
    ::fcntl(output_[i].get(), F_SETFL, O_NONBLOCK);
  }
  ready[2] = {.fd = stop_reading_.get(), .events = POLLIN, .revents = 0};
  std::array<char, 16 << 10> bytes{};
  const auto drain = [&](size_t i) {
    // The other stream gets its turn, unless this is the last one.
    size_t left = ready[2].revents == 0 ? 1 : kMostLeftInPipe;
    while (left > 0) {
      const ssize_t count =
          ::read(output_[i].get(), bytes.data(), bytes.size());
      if (count > 0) {
        const auto size = static_cast<size_t>(count);
        cutters[i].Take({bytes.data(), size});
        left -= std::min(left, size);
        continue;
      }
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      ready[i].fd = -1;  // all read
      return;
    }
  };
  while (ready[0].fd >= 0 || ready[1].fd >= 0) {
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < 2; ++i)
      if (ready[i].fd >= 0 && (ready[i].revents != 0 || ready[2].revents != 0))
        drain(i);
    // The group is dead: a process that still holds the pipe has left it.
    if (ready[2].revents != 0) break;
  }
  for (LineCutter& cutter : cutters) cutter.Finish();
}

ChildCommand::~ChildCommand() { Kill(); }

std::optional<CommandEnd> ChildCommand::End() {
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
    end_ = info.si_code == CLD_EXITED ? CommandEnd{.exit_code = info.si_status}
                                      : CommandEnd{.signal = info.si_status};
  }
  return end_;
}

void ChildCommand::Terminate() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

void ChildCommand::Kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) <
             0 &&
         errno == EINTR) {
  }
  (void)End();
  if (keeper_ > 0) {
    // Should it not have been in the group yet, its own end comes all the same.
    ::kill(keeper_, SIGKILL);
    Reap(keeper_);
  }
  Reap(pid_);
  pid_ = -1;
  if (!reader_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_reading_.get(), &one, sizeof(one));
  reader_.join();
}

}  // namespace ringmaster
