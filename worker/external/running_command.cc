#include "worker/external/running_command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging/log_file.h"
#include "common/logging/logging.h"
#include "common/status/exit_code.h"

extern char** environ;

namespace ringmaster {
namespace {

// A cancellation that has no descriptor is noticed by then.
constexpr absl::Duration kMostWait = absl::Seconds(1);

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

// As a shell has it for a program that it cannot run.
int CodeOf(const absl::Status& status) {
  return absl::IsNotFound(status) ? 127 : 126;
}

int MillisecondsUntil(MonotonicTime deadline, MonotonicTime now) {
  const absl::Duration left =
      std::clamp(deadline - now, absl::ZeroDuration(), kMostWait);
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

}  // namespace

// Takes lines from the command's reader, which is one thread, and tells the last
// ones to any.
class RunningCommand::Output {
 public:
  Output(const CommandPlace& place, const LogFileOptions& file)
      : job_(place.run_id), rank_(place.rank) {
    if (file.path.empty()) return;
    absl::StatusOr<LogFile> opened = LogFile::Open(file);
    if (opened.ok()) {
      file_.emplace(*std::move(opened));
    } else {
      WarnOfFile(opened.status());
    }
  }

  void Take(bool is_error, std::string_view line) {
    LogEvent(LogLevel::kInfo, is_error ? "command.stderr" : "command.stdout",
             {{"job", job_}, {"rank", rank_}, {"text", line}});
    if (file_.has_value()) {
      const absl::Status appended = file_->Append(absl::StrCat(
          "[", rank_, "] ", absl::string_view(line.data(), line.size()), "\n"));
      if (!appended.ok()) WarnOfFile(appended);
    }
    if (!is_error) return;
    MutexLock lock(mutex_);
    last_words_.Add(line);
  }

  std::string LastText() const {
    MutexLock lock(mutex_);
    return last_words_.Text();
  }

 private:
  // Once: of a full disk each line would tell.
  void WarnOfFile(const absl::Status& status) {
    if (std::exchange(has_warned_, true)) return;
    LogEvent(LogLevel::kWarning, "command.no_file",
             {{"error", status.message()}});
  }

  const std::string job_;
  const int rank_;
  std::optional<LogFile> file_;
  bool has_warned_ = false;
  mutable Mutex mutex_;
  LastWords last_words_ GUARDED_BY(mutex_);
};

RunningCommand::RunningCommand(const CommandSetup& setup,
                               const CommandPlace& place,
                               const LogFileOptions& output_file, Clock& clock)
    : clock_(clock), output_(std::make_shared<Output>(place, output_file)) {
  absl::StatusOr<std::unique_ptr<ChildCommand>> child = ChildCommand::Start(
      {.command = {.program = setup.program,
                   .arguments = {setup.arguments.begin() + 1,
                                 setup.arguments.end()},
                   .name = setup.arguments.front(),
                   .environment = CommandEnvironment(OwnEnvironment(),
                                                     setup.variables, place),
                   .directory = setup.directory.get()},
       .on_line = [output = output_](bool is_error, std::string_view line) {
         output->Take(is_error, line);
       }});
  if (!child.ok()) {
    end_text_ =
        absl::StrCat("did not start: ", std::string(child.status().message()));
    exit_code_ = CodeOf(child.status());
    ended_at_ = clock_.Now();
    return;
  }
  child_ = *std::move(child);
  LogEvent(
      LogLevel::kInfo, "command.started",
      {{"rank", place.rank},
       {"pid", child_->pid()},
       {"program", setup.program},
       {"restart_count", place.restart_count},
       {"master", absl::StrCat(place.master_address, ":", place.master_port)}});
}

RunningCommand::RunningCommand(Clock& clock)
    : clock_(clock), ended_at_(clock.Now()) {}

void RunningCommand::Look() {
  if (has_ended()) return;
  if (clock_.Now() >= kill_at_) child_->Kill();
  const std::optional<SubprocessEnd> end = child_->End();
  if (!end.has_value()) return;
  ended_at_ = clock_.Now();
  exit_code_ = end->code();
  signal_ = end->signal;
  end_text_ = CommandEndText(*end);
  child_->Kill();
  LogEvent(end->is_good() ? LogLevel::kInfo : LogLevel::kWarning,
           "command.ended", {{"end", end_text_}});
}

bool RunningCommand::Poll(MonotonicTime deadline, int cancel, int wake,
                          int other) {
  const MonotonicTime now = clock_.Now();
  // Once it is killed, its end is all there is to wait for.
  if (kill_at_ > now) deadline = std::min(deadline, kill_at_);
  std::array<pollfd, 4> ready = {
      pollfd{.fd = cancel, .events = POLLIN, .revents = 0},
      pollfd{.fd = wake, .events = POLLIN, .revents = 0},
      pollfd{.fd = has_ended() ? -1 : child_->pidfd(),
             .events = POLLIN,
             .revents = 0},
      pollfd{.fd = other, .events = POLLIN, .revents = 0}};
  (void)::poll(ready.data(), ready.size(), MillisecondsUntil(deadline, now));
  Look();
  return ready.back().revents != 0;
}

void RunningCommand::Wait(MonotonicTime deadline, const CancelToken& cancel,
                          int wake, int other) {
  Look();
  while (clock_.Now() < deadline && !cancel.is_cancelled()) {
    const bool ran = !has_ended();
    const bool has_other = Poll(deadline, cancel.fd(), wake, other);
    uint64_t rings = 0;
    (void)!::read(wake, &rings, sizeof(rings));
    if (rings > 0 || has_other || (ran && has_ended())) return;
  }
}

void RunningCommand::Terminate(absl::Duration grace) {
  Look();
  if (has_ended()) return;
  if (!terminated_at_.has_value()) {
    terminated_at_ = clock_.Now();
    child_->Terminate();
  }
  kill_at_ = std::min(kill_at_, *terminated_at_ + grace);
}

void RunningCommand::Stop(absl::Duration grace, const CancelToken& cancel) {
  Terminate(grace);
  while (!has_ended()) {
    const bool is_cancelled = cancel.is_cancelled();
    if (is_cancelled) Terminate(std::min(grace, kShortGrace));
    // Once it is cancelled, it would be readable all the time.
    Poll(MonotonicTime::InfiniteFuture(), is_cancelled ? -1 : cancel.fd(), -1,
         -1);
  }
}

absl::Duration RunningCommand::since_end() const {
  return clock_.Now() - ended_at_.value_or(clock_.Now());
}

std::string RunningCommand::FailureText() const {
  const std::string words = output_->LastText();
  return words.empty() ? end_text_ : absl::StrCat(end_text_, ": ", words);
}

}  // namespace ringmaster
