#include "server/ctl/doctor/programs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/transport/unique_fd.h"

namespace ringmaster::ctl {
namespace {

// Without a shell, which our images do not have.
void AskVersion(ProgramFacts& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    program.error = std::strerror(errno);
    return;
  }
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // The parent may have ended before prctl took effect.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
      ::_exit(127);
    (void)::dup2(writer.get(), STDOUT_FILENO);
    ::execl(program.path.c_str(), program.path.c_str(), "--version", nullptr);
    ::_exit(127);
  }
  writer.Reset();
  if (pid < 0) {
    program.error = std::strerror(errno);
    return;
  }
  std::string output;
  std::array<char, 256> buffer{};
  ssize_t count = 0;
  while ((count = ::read(reader.get(), buffer.data(), buffer.size())) > 0)
    output.append(buffer.data(), static_cast<size_t>(count));
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) {
    program.error = std::strerror(errno);
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    program.version = std::string(absl::StripAsciiWhitespace(output));
  } else if (WIFSIGNALED(status)) {
    program.error = absl::StrCat("it was ended by signal ", WTERMSIG(status));
  } else {
    program.error = absl::StrCat("it ended with ", WEXITSTATUS(status));
  }
}

Finding ProgramFinding(const ProgramFacts& program,
                       const std::string& own_version) {
  constexpr std::string_view kRemedy =
      "unpack one bundle whole, or name its directory with --bin_dir";
  // "coordinator" alone is the one that answers.
  const std::string check = absl::StrCat("program ", program.name);
  if (program.path.empty()) {
    return Warn(check, program.error, "this host cannot start it from here",
                std::string(kRemedy));
  }
  if (program.version.empty()) {
    return Fail(check,
                absl::StrCat(program.path, " does not run: ", program.error),
                "it needs nothing but a C library as new as Debian 12's",
                "start it by hand with --version, and see what is missing");
  }
  const std::string what = absl::StrCat(program.path, ", ", program.version);
  if (program.version == own_version) return Good(check, what);
  return Fail(check, absl::StrCat(what, "; ringctl is ", own_version),
              "programs of two releases are not made to run together",
              std::string(kRemedy));
}

}  // namespace

std::vector<ProgramFacts> GatherProgramFacts(const BinaryPlaces& places) {
  std::vector<ProgramFacts> programs;
  for (const char* name : {"coordinator", "parameter_server", "worker"}) {
    ProgramFacts program{.name = name, .path = {}, .version = {}, .error = {}};
    absl::StatusOr<std::string> path = FindBinary(name, places);
    if (path.ok()) {
      program.path = *std::move(path);
      AskVersion(program);
    } else {
      program.error = std::string(path.status().message());
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

std::vector<Finding> ProgramFindings(const std::vector<ProgramFacts>& programs,
                                     const std::string& own_version) {
  std::vector<Finding> findings;
  for (const ProgramFacts& program : programs)
    findings.push_back(ProgramFinding(program, own_version));
  return findings;
}

}  // namespace ringmaster::ctl
