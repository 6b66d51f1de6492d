#include "server/ctl/doctor/probes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process/pipe.h"

namespace ringmaster::ctl {
namespace {

// The main function of a probe. The output of libraries is discarded.
[[noreturn]] void RunProbe(const Probe& probe, pid_t parent, int output) {
  // The parent may have ended before prctl took effect.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  (void)pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    for (const int stream : {0, 1, 2}) (void)::dup2(null, stream);
  }
  const std::string text = ToJson(probe.look());
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count =
        ::write(output, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) ::_exit(1);
    if (count > 0) written += static_cast<size_t>(count);
  }
  ::_exit(0);
}

}  // namespace

Probes::Probes(std::vector<Probe> probes) {
  for (Probe& probe : probes) {
    runs_.push_back({.probe = std::move(probe), .output = UniqueFd()});
    Start(runs_.back());
  }
}

Probes::~Probes() {
  for (Run& run : runs_) {
    if (run.pid <= 0) continue;
    ::kill(run.pid, SIGKILL);
    // One that a disk holds is not there yet, and is left to init.
    ::waitpid(run.pid, nullptr, WNOHANG);
  }
}

void Probes::Start(Run& run) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  if (!pipe.ok()) {
    run.trouble = std::string(pipe.status().message());
    return;
  }
  const pid_t parent = ::getpid();
  run.pid = ::fork();
  if (run.pid == 0) RunProbe(run.probe, parent, pipe->write.get());
  if (run.pid < 0) {
    run.trouble = std::strerror(errno);
    return;
  }
  run.output = std::move(pipe->read);
}

void Probes::Read(Run& run) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(run.output.get(), buffer.data(), buffer.size());
  if (count > 0) {
    run.text.append(buffer.data(), static_cast<size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    run.output.Reset();
  }
}

std::string Probes::HowItEnded(Run& run) {
  siginfo_t end = {};
  // It was killed or is about to end: the kernel closed its output for it. One
  // that a driver holds up meanwhile is not waited for.
  for (int tries = 0; tries < 20; ++tries) {
    if (::waitid(P_PID, static_cast<id_t>(run.pid), &end, WEXITED | WNOHANG) !=
        0)
      return "";
    if (end.si_pid == run.pid) break;
    (void)::poll(nullptr, 0, 10);
  }
  if (end.si_pid != run.pid) return "";
  run.pid = -1;
  if (end.si_code != CLD_KILLED && end.si_code != CLD_DUMPED) return "";
  return absl::StrCat("the probe was ended by signal ", end.si_status, " (",
                      strsignal(end.si_status), ")");
}

std::vector<Finding> Probes::Finish(Run& run, absl::Duration limit) {
  std::string trouble = run.trouble;
  if (run.output.is_open()) {
    trouble = absl::StrCat("no answer within ", absl::FormatDuration(limit));
    // It may hold what the checks that follow want.
    ::kill(run.pid, SIGKILL);
    run.output.Reset();
  } else if (trouble.empty()) {
    // Nobody waits for a probe that has answered: a driver may hold up its end.
    absl::StatusOr<std::vector<Finding>> findings = FromJson(run.text);
    if (findings.ok()) return *std::move(findings);
    trouble = HowItEnded(run);
    if (trouble.empty()) trouble = std::string(findings.status().message());
  }
  return {{.check = run.probe.name,
           .level = run.probe.level_of_silence,
           .what = absl::StrCat("not known: ", trouble),
           .why = "what a program does here may hang or fail in the same way",
           .remedy = run.probe.remedy,
           .code = ExitCode::kRetryElsewhere}};
}

std::vector<Finding> Probes::Await(absl::Duration limit, Clock& clock) {
  const MonotonicTime deadline = clock.Now() + limit;
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Run*> waited;
    for (Run& run : runs_) {
      if (!run.output.is_open()) continue;
      waits.push_back({.fd = run.output.get(), .events = POLLIN, .revents = 0});
      waited.push_back(&run);
    }
    const absl::Duration left = deadline - clock.Now();
    if (waits.empty() || left <= absl::ZeroDuration()) break;
    const int64_t milliseconds =
        absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    (void)::poll(waits.data(), waits.size(),
                 static_cast<int>(std::min<int64_t>(milliseconds, 60'000)));
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) Read(*waited[i]);
    }
  }
  std::vector<Finding> findings;
  for (Run& run : runs_) {
    std::vector<Finding> found = Finish(run, limit);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  return findings;
}

}  // namespace ringmaster::ctl
