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
#include "common/process/pipe.h"
#include "common/status/status_macros.h"
#include "worker/external/output_lines.h"

namespace ringmaster {
namespace {

// A pipe holds no more (pipe(7), pipe-max-size): after so much, all that a dead
// group wrote has been read.
constexpr size_t kMostLeftInPipe = size_t{1} << 20;

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
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

std::string CommandEndText(const SubprocessEnd& end) {
  if (end.signal == 0)
    return absl::StrCat("ended with exit code ", end.exit_code);
  return absl::StrCat("was killed by signal ", end.signal, " (",
                      ::strsignal(end.signal), ")");
}

absl::StatusOr<std::unique_ptr<ChildCommand>> ChildCommand::Start(
    Options options) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  UniqueFd stop_reading(::eventfd(0, EFD_CLOEXEC));
  if (!stop_reading.is_open()) return SystemError("cannot make an eventfd");
  options.command.out = out.write.get();
  options.command.error = error.write.get();
  ASSIGN_OR_RETURN(Subprocess process, Subprocess::Start(options.command));
  std::unique_ptr<ChildCommand> command(new ChildCommand(std::move(process)));
  RETURN_IF_ERROR(command->StartKeeper());
  command->stop_reading_ = std::move(stop_reading);
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
  if (keeper < 0) return SystemError("cannot start a keeper");
  if (keeper == 0) Keep(process_.pid(), pipe.read.get());
  ::setpgid(keeper, process_.pid());
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

void ChildCommand::Kill() {
  process_.Kill();
  if (keeper_ > 0) {
    // Should it not have been in the group yet, its own end comes all the same.
    ::kill(keeper_, SIGKILL);
    Reap(keeper_);
    keeper_ = -1;
  }
  if (!reader_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_reading_.get(), &one, sizeof(one));
  reader_.join();
}

}  // namespace ringmaster
