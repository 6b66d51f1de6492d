#include "server/ctl/doctor/output_of.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/transport/unique_fd.h"

namespace ringmaster::ctl {
namespace {

absl::Status Failure() { return absl::UnavailableError(std::strerror(errno)); }

// Holds all of `input`, so that nobody waits for a reader.
UniqueFd InputOf(std::string_view input) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file.is_open()) return file;
  const ssize_t written = ::write(file.get(), input.data(), input.size());
  if (written != static_cast<ssize_t>(input.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return UniqueFd();
  }
  return file;
}

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     std::string_view input) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Failure();
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const UniqueFd given = InputOf(input);
  if (!given.is_open()) return Failure();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // The parent may have ended before prctl took effect.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
      ::_exit(127);
    (void)::dup2(given.get(), STDIN_FILENO);
    (void)::dup2(writer.get(), STDOUT_FILENO);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  writer.Reset();
  if (pid < 0) return Failure();
  std::string output;
  std::array<char, 256> buffer{};
  ssize_t count = 0;
  while ((count = ::read(reader.get(), buffer.data(), buffer.size())) > 0)
    output.append(buffer.data(), static_cast<size_t>(count));
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return Failure();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  return absl::UnavailableError(
      WIFSIGNALED(status)
          ? absl::StrCat("it was ended by signal ", WTERMSIG(status))
          : absl::StrCat("it ended with ", WEXITSTATUS(status)));
}

}  // namespace ringmaster::ctl
