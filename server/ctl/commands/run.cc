#include "server/ctl/commands/run.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/credentials/credentials.h"
#include "common/job/job_spec.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/cancel_on_interrupt.h"
#include "server/ctl/commands/command_output.h"
#include "server/ctl/commands/follow.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/commands/warnings.h"
#include "server/ctl/local/binaries.h"
#include "server/ctl/local/local_cluster.h"
#include "server/ctl/local/other_clusters.h"
#include "server/ctl/local/run_directory.h"
#include "server/ctl/render/job_view.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/text.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

// On this machine nobody else asks.
constexpr absl::Duration kLocalInterval = absl::Milliseconds(250);
constexpr absl::Duration kCancelLimit = absl::Minutes(5);
constexpr int kMostRanks = 4096;
// worker/torch/sitecustomize.py reads it.
constexpr char kBackendVariable[] = "RINGMASTER_TORCH";
constexpr char kAsIs[] = "as_is";

// Follows one job and shows its commands' output.
class Follower {
 public:
  // `check` is called a few times a second; its error ends the run.
  Follower(const RunContext& context, Client& client,
           std::function<absl::Status(const v1::Job&)> check)
      : context_(context),
        client_(client),
        check_(std::move(check)),
        cancel_(client, context.clock,
                {.is_interrupted = context.is_interrupted,
                 .limit = kCancelLimit,
                 .note = [this](std::string_view line) { Note(line); }}) {}

  absl::StatusOr<v1::Job> Run(const v1::JobSpec& spec) {
    ASSIGN_OR_RETURN(const v1::Job job,
                     client_.SubmitJob(spec, /*validate_only=*/false, ""));
    WarnOf(job.spec(), context_.console);
    Note(absl::StrCat("job: ", Printable(job.id())));
    CommandOutput output(context_.console, job.id());
    JobWatch watch(client_.Share(), job.id(), {}, context_.clock,
                   context_.bell);
    const absl::Duration interval =
        context_.cluster == nullptr ? kLocalInterval : kFollowInterval;
    MonotonicTime next_show = context_.clock.Now();
    while (true) {
      const WatchSnapshot snapshot = watch.Snapshot();
      if (snapshot.job.has_value()) Tell(*snapshot.job);
      const bool has_members =
          snapshot.job.has_value() && snapshot.job->generation() > 0;
      if (snapshot.end.has_value()) {
        if (has_members) ShowLast(output, interval);
        RETURN_IF_ERROR(*snapshot.end);
        return *snapshot.job;
      }
      if (has_members && context_.clock.Now() >= next_show) {
        // Lines that are missing now are asked for again.
        (void)output.Show(client_);
        next_show = context_.clock.Now() + interval;
      }
      RETURN_IF_ERROR(cancel_.Check(job.id()));
      RETURN_IF_ERROR(check_(snapshot.job.value_or(job)));
      (void)context_.bell.Await(context_.clock,
                                context_.clock.Now() + interval);
    }
  }

 private:
  // The last lines are behind the job's end, and no later call brings those of a
  // worker that did not answer in time.
  void ShowLast(CommandOutput& output, absl::Duration interval) {
    const MonotonicTime deadline =
        context_.clock.Now() + context_.last_lines_limit;
    while (!output.Show(client_)) {
      if (context_.clock.Now() + interval > deadline) {
        output.TellMissing();
        return;
      }
      (void)context_.bell.Await(context_.clock,
                                context_.clock.Now() + interval);
    }
  }

  // On stderr: stdout is the commands'.
  void Note(std::string_view line) {
    context_.console.WriteError(absl::StrCat(std::string(line), "\n"));
  }

  void Tell(const v1::Job& job) {
    if (HasEnded(job.state())) return;
    if (job.has_verdict()) {
      std::string incident = IncidentLine(job.verdict(), Style());
      if (incident != incident_) Note(incident);
      incident_ = std::move(incident);
    }
    std::string state = StateLine(job);
    const bool is_told = job.state() == v1::JOB_STATE_QUEUED ||
                         job.state() == v1::JOB_STATE_GATHERING;
    // Here the workers come at once.
    if (state != state_ && is_told &&
        (context_.cluster != nullptr || job.generation() > 0)) {
      Note(state);
    }
    state_ = std::move(state);
  }

  const RunContext& context_;
  Client& client_;
  const std::function<absl::Status(const v1::Job&)> check_;
  CancelOnInterrupt cancel_;
  std::string state_;
  std::string incident_;
};

// The outcome of a run that came to its end.
int Conclude(const RunContext& context, const v1::Job& job) {
  if (job.state() != v1::JOB_STATE_SUCCEEDED) {
    context.console.WriteError(absl::StrCat(
        "error: job ", Printable(job.id()), " ",
        job.state() == v1::JOB_STATE_CANCELLED ? "was cancelled" : "failed",
        ": ", Printable(job.message()), "\n"));
  }
  return ExitCodeOfJob(job);
}

absl::StatusOr<v1::Job> RunInCluster(const RunContext& context,
                                     const v1::JobSpec& spec, int ranks,
                                     LocalCluster& cluster) {
  const auto check_interrupt = [&] {
    return context.is_interrupted()
               ? absl::CancelledError("stopped by a signal")
               : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::string address,
                   cluster.StartCoordinator(check_interrupt));
  ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials({}, address));
  Client client({.address = address,
                 .credentials = std::move(credentials),
                 .timeout = context.timeout});
  RETURN_IF_ERROR(cluster.StartWorkers(address, ranks));
  Follower follower(context, client, [&](const v1::Job& job) {
    // Once it has members, the coordinator decides what a worker's end means.
    return cluster.Check(/*needs_all_members=*/job.generation() == 0);
  });
  return follower.Run(spec);
}

absl::StatusOr<int> RunHere(const RunContext& context,
                            const RunOptions& options,
                            const v1::JobSpec& spec) {
  LocalClusterOptions cluster_options;
  const BinaryPlaces places = OwnPlaces(options.bin_dir);
  ASSIGN_OR_RETURN(cluster_options.coordinator_binary,
                   FindBinary("coordinator", places));
  ASSIGN_OR_RETURN(cluster_options.worker_binary, FindBinary("worker", places));
  cluster_options.worker_arguments = {"--allow_commands"};
  ASSIGN_OR_RETURN(cluster_options.run_dir,
                   MakeRunDirectory(options.run_dir, absl::Now()));
  ForgetOtherClusters();
  context.console.WriteError(
      absl::StrCat("logs: ", cluster_options.run_dir, "\n"));
  LocalCluster cluster(cluster_options);
  const absl::StatusOr<v1::Job> job =
      RunInCluster(context, spec, options.ranks, cluster);
  cluster.Stop();
  if (!job.ok() && context.is_interrupted()) {
    context.console.WriteError(
        absl::StrCat("error: ", std::string(job.status().message()), "\n"));
    return static_cast<int>(ExitCode::kStopped);
  }
  RETURN_IF_ERROR(job.status());
  return Conclude(context, *job);
}

}  // namespace

void AddRunCommand(FlagSet& flags, RunOptions& options) {
  FlagSet& run = flags.AddCommand(
      "run",
      "Run a command on every rank, as torchrun does: on this machine, with a "
      "coordinator and workers of its own, or with --coordinator on a "
      "cluster (docs/pytorch.md). Ends with the exit code of the command that "
      "failed.");
  run.AddArgument("COMMAND",
                  "The command and its arguments; flags behind its first "
                  "word are its own.",
                  /*is_required=*/true, &options.command, /*ends_flags=*/true);
  run.Add({.name = "ranks",
           .short_name = 'n',
           .unit = "N",
           .help = "Ranks: a command each.",
           .min = 1,
           .max = kMostRanks},
          &options.ranks);
  run.Add({.name = "name", .unit = "NAME", .help = "The job's name."},
          &options.name);
  run.Add({.name = "max_restarts",
           .unit = "N",
           .help = "How many times all commands are started again because one "
                   "failed.",
           .min = 0,
           .max = 1000000},
          &options.max_restarts);
  run.Add({.name = "env",
           .unit = "NAME=VALUE",
           .help = "A variable for the commands; may be repeated."},
          &options.environment);
  run.Add({.name = "backend",
           .help = "What a PyTorch script gets that asks for gloo: "
                   "Ringmaster's back end in its place, or as_is gloo itself.",
           .choices = {"ringmaster", "as_is"}},
          &options.backend);
  run.Add({.name = "working_directory",
           .unit = "DIR",
           .help = "Where the commands start; on this machine the current "
                   "directory unless given, on a cluster the workers'.",
           .is_place = true},
          &options.working_directory);
  run.Add({.name = "bin_dir",
           .unit = "DIR",
           .help = "Where the programs coordinator and worker are; beside "
                   "ringctl unless given.",
           .is_place = true},
          &options.bin_dir);
  run.Add({.name = "run_dir",
           .unit = "DIR",
           .help = "Where logs go; a new ./ringmaster-run-TIME unless given.",
           .is_place = true},
          &options.run_dir);
}

absl::StatusOr<v1::JobSpec> RunJobSpec(const RunOptions& options) {
  v1::JobSpec spec;
  spec.set_name(options.name);
  spec.mutable_workers()->set_min(options.ranks);
  spec.mutable_workers()->set_max(options.ranks);
  v1::ExternalProgram& external = *spec.mutable_external();
  external.mutable_command()->Assign(options.command.begin(),
                                     options.command.end());
  external.set_max_restarts(options.max_restarts);
  external.set_working_directory(options.working_directory);
  if (options.backend == kAsIs)
    (*external.mutable_environment())[kBackendVariable] = kAsIs;
  for (const std::string& entry : options.environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--env: ", Printable(entry), " is not of the form NAME=VALUE"));
    }
    (*external.mutable_environment())[entry.substr(0, equals)] =
        entry.substr(equals + 1);
  }
  RETURN_IF_ERROR(ValidateAndDefault(spec).status());
  return spec;
}

absl::StatusOr<int> RunRun(const RunContext& context,
                           const RunOptions& options) {
  RunOptions settled = options;
  std::error_code error;
  if (context.cluster == nullptr && settled.working_directory.empty())
    settled.working_directory = std::filesystem::current_path(error).string();
  ASSIGN_OR_RETURN(const v1::JobSpec spec, RunJobSpec(settled));
  if (context.cluster == nullptr) return RunHere(context, settled, spec);
  Follower follower(context, *context.cluster,
                    [](const v1::Job&) { return absl::OkStatus(); });
  ASSIGN_OR_RETURN(const v1::Job job, follower.Run(spec));
  return Conclude(context, job);
}

}  // namespace ringmaster::ctl
