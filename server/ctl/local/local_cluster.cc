#include "server/ctl/local/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/local/run_directory.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1";
constexpr int kQuotedLines = 10;
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// The first line of the file, once it is whole.
std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return file.eof() ? "" : line;
}

bool IsOneOfOurs(int code) {
  return std::any_of(kExitCodes.begin(), kExitCodes.end(),
                     [&](const ExitCodeMeaning& known) {
                       return static_cast<int>(known.code) == code;
                     });
}

}  // namespace

LocalCluster::LocalCluster(LocalClusterOptions options)
    : options_(std::move(options)) {}

absl::StatusOr<LocalCluster::Child> LocalCluster::StartChild(
    const std::string& name, const std::string& program,
    std::vector<std::string> arguments) {
  const std::string log = absl::StrCat(options_.run_dir, "/", name, ".log");
  ASSIGN_OR_RETURN(Subprocess process,
                   Subprocess::Start({program, std::move(arguments), log}));
  return Child{name, log, std::move(process)};
}

std::vector<std::string> LocalCluster::WithSecurity(
    std::vector<std::string> arguments) const {
  if (options_.listen_host != kLoopback) arguments.push_back("--insecure");
  return arguments;
}

absl::StatusOr<std::string> LocalCluster::StartCoordinator(
    const std::function<absl::Status()>& check) {
  // A new one each time: a run directory may be used again, and must not bring an old job back.
  scratch_dir_ = absl::StrCat(options_.run_dir, "/state.XXXXXX");
  if (::mkdtemp(scratch_dir_.data()) == nullptr) {
    const int error = errno;
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot make the directory ", std::exchange(scratch_dir_, ""), ": ",
        std::strerror(error)));
  }
  const std::string port_file = absl::StrCat(scratch_dir_, "/port");
  const std::string page_port_file = absl::StrCat(scratch_dir_, "/page_port");
  std::vector<std::string> arguments = {
      absl::StrCat("--listen=", options_.listen_host, ":0"),
      absl::StrCat("--state_dir=", scratch_dir_, "/journal"),
      absl::StrCat("--port_file=", port_file), "--shutdown_delay=0s"};
  if (!options_.page_listen.empty()) {
    arguments.push_back(absl::StrCat("--page_listen=", options_.page_listen));
    arguments.push_back(absl::StrCat("--page_port_file=", page_port_file));
  }
  ASSIGN_OR_RETURN(coordinator_,
                   StartChild("coordinator", options_.coordinator_binary,
                              WithSecurity(std::move(arguments))));
  const Clock& clock = Clock::Real();
  const MonotonicTime deadline = clock.Now() + options_.start_limit;
  while (clock.Now() < deadline) {
    RETURN_IF_ERROR(check());
    RETURN_IF_ERROR(Check(/*needs_all_members=*/false));
    if (const std::string port = ReadLine(port_file); !port.empty()) {
      // It writes this one first.
      page_port_ = ReadLine(page_port_file);
      return absl::StrCat(options_.listen_host, ":", port);
    }
    (void)coordinator_->process.Wait(kPollInterval);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the coordinator did not listen within ",
                   absl::FormatDuration(options_.start_limit), "; its log is ",
                   coordinator_->log));
}

absl::Status LocalCluster::StartMembers(
    const std::string& name, const std::string& program,
    const std::string& address, int count,
    const std::vector<std::string>& arguments) {
  for (int i = 0; i < count; ++i) {
    const std::string member = absl::StrCat(name, "-", i);
    std::vector<std::string> command;
    if (options_.launcher)
      command = options_.launcher(static_cast<int>(members_.size()));
    command.insert(command.end(),
                   {program, absl::StrCat("--coordinator=", address),
                    absl::StrCat("--name=", member)});
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back("--restart=always");
    command.insert(command.end(), options_.member_arguments.begin(),
                   options_.member_arguments.end());
    const std::string launched = command.front();
    command.erase(command.begin());
    ASSIGN_OR_RETURN(Child child, StartChild(member, launched,
                                             WithSecurity(std::move(command))));
    members_.push_back(std::move(child));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::StartWorkers(const std::string& address, int count) {
  std::vector<std::string> arguments = options_.worker_arguments;
  arguments.push_back(absl::StrCat("--threads=", options_.worker_threads));
  // The jobs are those of the user whose processes these are.
  arguments.insert(arguments.end(), {"--allow_read=/", "--allow_write=/"});
  if (options_.are_workers_slots)
    arguments.push_back(absl::StrCat("--slots=", std::exchange(count, 1)));
  return StartMembers("worker", options_.worker_binary, address, count,
                      arguments);
}

absl::Status LocalCluster::StartParameterServers(const std::string& address,
                                                 int count) {
  return StartMembers("server", options_.parameter_server_binary, address,
                      count, {});
}

absl::Status LocalCluster::EndedError(Child& child) {
  const int code = child.process.ExitCode().value_or(0);
  const std::vector<std::string> lines = LastLines(child.log, kQuotedLines);
  std::string message =
      absl::StrCat("the ", child.name, " ended with exit code ", code,
                   lines.empty() ? "; its log is empty (is the disk full?): "
                                 : "; the end of its log ",
                   child.log, lines.empty() ? "" : ":");
  for (const std::string& line : lines) absl::StrAppend(&message, "\n  ", line);
  const absl::Status status = absl::InternalError(message);
  // A child that ended without being asked has not succeeded, whatever it says.
  const bool has_meaning = code != 0 && IsOneOfOurs(code);
  return WithExitCode(
      status, has_meaning ? static_cast<ExitCode>(code) : ExitCode::kInternal);
}

absl::Status LocalCluster::Check(bool needs_all_members) {
  if (coordinator_.has_value() && coordinator_->process.ExitCode().has_value())
    return EndedError(*coordinator_);
  if (!needs_all_members) return absl::OkStatus();
  for (Child& member : members_) {
    if (member.process.ExitCode().has_value()) return EndedError(member);
  }
  return absl::OkStatus();
}

void LocalCluster::Stop() {
  // Members first: they take leave of the coordinator.
  for (Child& member : members_) member.process.Signal(SIGTERM);
  const Clock& clock = Clock::Real();
  const MonotonicTime deadline = clock.Now() + options_.stop_limit;
  for (Child& member : members_)
    (void)member.process.Wait(deadline - clock.Now());
  for (Child& member : members_) member.process.Kill();
  if (coordinator_.has_value()) {
    coordinator_->process.Signal(SIGTERM);
    (void)coordinator_->process.Wait(options_.stop_limit);
    coordinator_->process.Kill();
  }
  std::error_code ignored;
  if (!scratch_dir_.empty()) std::filesystem::remove_all(scratch_dir_, ignored);
}

std::string LocalCluster::LogOf(const std::string& name) const {
  for (const Child& member : members_) {
    if (name == member.name) return member.log;
  }
  return "";
}

}  // namespace ringmaster::ctl
