#include "worker/supervisor/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/environment.h"
#include "common/logging/logging.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/supervisor/child_exit.h"
#include "worker/supervisor/signal_pipe.h"
#include "worker/supervisor/slot.h"

namespace ringmaster {
namespace {

// The exit code that a shell returns for a program that cannot be run.
constexpr int kCannotExec = 126;

// Well below kLongTurn, so that a watchdog sees it turn.
constexpr absl::Duration kLongestWait = absl::Seconds(2);

// Called in a new child: becomes the program, or ends. Other threads may have
// held
// any lock at the fork, so nothing here allocates.
[[noreturn]] void Become(const char* program, char* const* argv,
                         char* const* environment, pid_t parent) {
  // SIGKILL, because a child must not outlive its supervisor for as long as an
  // orderly departure may take.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kRetryElsewhere));
  setpgid(0, 0);
  execve(program, argv, environment);
  _exit(kCannotExec);
}

bool SetsVariable(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.substr(0, name.size()) == name &&
         entry[name.size()] == '=';
}

// This process's environment as that of a child, whose predecessor in its slot
// is `predecessor` ("": there was none).
std::vector<std::string> ChildEnvironment(const std::string& predecessor) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (SetsVariable(*entry, kPredecessorVariable)) continue;
    if (!predecessor.empty() && SetsVariable(*entry, kFailPointsVariable))
      continue;
    variables.emplace_back(*entry);
  }
  if (!predecessor.empty()) {
    variables.push_back(absl::StrCat(kPredecessorVariable, "=", predecessor));
  }
  return variables;
}

// For execve; valid as long as `strings`.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Supervisor::Supervisor(Clock& clock, SupervisorOptions options)
    : clock_(clock),
      turned_at_nanos_(clock.Now().nanos()),
      options_(std::move(options)) {}

bool Supervisor::IsTurning() const {
  const auto turned_at = MonotonicTime::FromNanos(
      turned_at_nanos_.load(std::memory_order_relaxed));
  return clock_.Now() - turned_at <= kLongTurn;
}

ExitCode Supervisor::Run() {
  SignalPipe signals({SIGTERM, SIGINT, SIGCHLD});
  const bool has_started_all = StartAll();
  if (!has_started_all) Signal(SIGTERM);
  while (IsAnyLeft()) {
    turned_at_nanos_.store(clock_.Now().nanos(), std::memory_order_relaxed);
    const std::optional<int> signal =
        signals.Next(std::min(UntilNextDeadline(), kLongestWait));
    if (signal == SIGTERM || signal == SIGINT) Signal(*signal);
    Reap();
    StartDue();
    if (kill_at_ && clock_.Now() >= *kill_at_) Signal(SIGKILL);
  }
  std::vector<ExitCode> codes;
  for (const Child& child : children_) codes.push_back(child.exit_code);
  if (!has_started_all) codes.push_back(ExitCode::kRetryElsewhere);
  // Children that had done their part before the signal do not make it less of
  // a stop.
  if (is_stopping_) codes.push_back(ExitCode::kStopped);
  return WorstExitCode(codes);
}

bool Supervisor::StartAll() {
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    Child& child = children_.emplace_back(Child{
        .slot = slot,
        .policy = RestartPolicy(options_.restart.value_or(RestartOptions()))});
    if (const absl::Status status = Start(child); !status.ok()) {
      LogEvent(LogLevel::kError, "worker.not_started",
               {{"name", NameOf(child)}, {"cause", status}});
      return false;
    }
  }
  return true;
}

absl::Status Supervisor::Start(Child& child) {
  std::vector<std::string> arguments = {"worker",
                                        absl::StrCat("--slot=", child.slot)};
  arguments.insert(arguments.end(), options_.arguments.begin(),
                   options_.arguments.end());
  std::vector<std::string> variables = ChildEnvironment(child.predecessor);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> environment = Pointers(variables);
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
    Become(options_.program.c_str(), argv.data(), environment.data(), parent);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("fork: ", std::strerror(error)));
  }
  child.pid = pid;
  child.is_running = true;
  child.started_at = clock_.Now();
  child.start_at = std::nullopt;
  LogEvent(LogLevel::kInfo, "worker.started",
           {{"name", NameOf(child)}, {"pid", pid}});
  return absl::OkStatus();
}

void Supervisor::StartDue() {
  for (Child& child : children_) {
    if (!child.start_at || clock_.Now() < *child.start_at) continue;
    if (const absl::Status status = Start(child); !status.ok()) {
      LogEvent(LogLevel::kWarning, "worker.not_started",
               {{"name", NameOf(child)}, {"cause", status}});
      child.start_at = clock_.Now() + child.policy.OnFailedStart();
    }
  }
}

void Supervisor::Reap() {
  for (Child& child : children_) {
    int status = 0;
    if (child.is_running && waitpid(child.pid, &status, WNOHANG) > 0)
      OnEnd(child, status);
  }
}

void Supervisor::OnEnd(Child& child, int wait_status) {
  const MonotonicTime now = clock_.Now();
  child.is_running = false;
  child.exit_code = ChildExitCode(wait_status);
  child.predecessor = PredecessorText(child.pid, wait_status);
  RestartPolicy::Decision decision = {
      std::nullopt, is_stopping_ ? "all are being stopped"
                                 : "not started again: --restart=never"};
  if (options_.restart && !is_stopping_) {
    decision = child.policy.OnEnd(wait_status, child.started_at, now);
    if (decision.start_after) child.start_at = now + *decision.start_after;
  }
  const bool is_wanted = KindOfChildEnd(wait_status) == ChildEnd::kWanted;
  const LogLevel level = is_wanted        ? LogLevel::kInfo
                         : child.start_at ? LogLevel::kWarning
                                          : LogLevel::kError;
  LogEvent(level, "worker.ended",
           {{"name", NameOf(child)},
            {"pid", child.pid},
            {"cause", DescribeChildExit(wait_status)},
            {"message", decision.text}});
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
  for (Child& child : children_) {
    if (child.is_running) kill(child.pid, signal);
    // It was only waiting for its restart, so its last end does not count.
    if (child.start_at) child.exit_code = ExitCode::kStopped;
    child.start_at = std::nullopt;
  }
}

absl::Duration Supervisor::UntilNextDeadline() const {
  MonotonicTime next = kill_at_.value_or(MonotonicTime::InfiniteFuture());
  for (const Child& child : children_)
    next = std::min(next, child.start_at.value_or(next));
  return next - clock_.Now();
}

bool Supervisor::IsAnyLeft() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) {
                       return child.is_running || child.start_at.has_value();
                     });
}

std::string Supervisor::NameOf(const Child& child) const {
  return SlotName(options_.name, child.slot, options_.slot_count);
}

}  // namespace ringmaster
