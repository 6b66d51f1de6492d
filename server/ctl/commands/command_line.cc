#include "server/ctl/commands/command_line.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/config/address.h"
#include "common/config/flag_help.h"
#include "common/config/flags.h"
#include "common/credentials/credentials.h"
#include "common/files/new_file.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/coordinator/journal/backup.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/audit.h"
#include "server/ctl/commands/bench.h"
#include "server/ctl/commands/bundle.h"
#include "server/ctl/commands/checkpoint.h"
#include "server/ctl/commands/cluster_bench.h"
#include "server/ctl/commands/compare.h"
#include "server/ctl/commands/completion.h"
#include "server/ctl/commands/cordon.h"
#include "server/ctl/commands/describe.h"
#include "server/ctl/commands/doctor.h"
#include "server/ctl/commands/events.h"
#include "server/ctl/commands/flight.h"
#include "server/ctl/commands/jobs.h"
#include "server/ctl/commands/local.h"
#include "server/ctl/commands/logs.h"
#include "server/ctl/commands/pki.h"
#include "server/ctl/commands/queries.h"
#include "server/ctl/commands/run.h"
#include "server/ctl/commands/sample.h"
#include "server/ctl/commands/state.h"
#include "server/ctl/commands/submit.h"
#include "server/ctl/commands/top.h"
#include "server/ctl/commands/trace.h"
#include "server/ctl/terminal/interrupts.h"
#include "server/ctl/terminal/screen.h"

namespace ringmaster::ctl {
namespace {

constexpr const char* kDefaultCoordinator = "127.0.0.1:29400";

// Everything that the command line can say.
struct CommandLine {
  std::string coordinator;  // "": kDefaultCoordinator, where one is needed
  std::string output = "table";
  absl::Duration timeout = absl::Seconds(5);
  CredentialsOptions credentials;
  std::string job;
  std::string reason = "requested with ringctl";
  std::string change_reason;
  std::string priority;
  std::string workers;
  std::string queue;
  SubmitOptions submit;
  TraceOptions trace;
  FlightOptions flight;
  LocalOptions local;
  RunOptions run;
  SampleOptions sample;
  CheckpointCommandOptions checkpoint;
  StateCommandOptions state;
  PkiOptions pki;
  AuditOptions audit;
  CordonOptions cordon;
  std::string queues_file;
  EventsOptions events;
  LogsOptions logs;
  std::string described;
  BundleOptions bundle;
  JobsOptions jobs;
  TopOptions top;
  StatusOptions shown;
  std::string shell;
  BenchFlags bench;
  CompareFlags compare;
  DoctorFlags doctor;

  [[nodiscard]] OutputFormat format() const {
    return output == "json" ? OutputFormat::kJson : OutputFormat::kTable;
  }
};

void AddGlobalFlags(FlagSet& flags, CommandLine& line) {
  flags.StartGroup("Output");
  flags.Add({.name = "output",
             .short_name = 'o',
             .help = "Output format. json (docs/json.md) is one document, or "
                     "one line per update or event that is followed; wide is "
                     "a table with more columns, where there is one (jobs).",
             .choices = {"table", "wide", "json"}},
            &line.output);
  flags.StartGroup("Coordinator");
  flags.Add({.name = "coordinator",
             .unit = "HOST:PORT",
             .help = absl::StrCat(
                 "Address of the coordinator; ", kDefaultCoordinator,
                 " unless given. local starts its own instead; bench, compare, "
                 "doctor and run do without unless it is given.")},
            &line.coordinator);
  flags.Add({.name = "timeout",
             .unit = "DURATION",
             .help = "How long a call may take. Watching a job has no limit, "
                     "but gives up a minute after the "
                     "coordinator was last heard.",
             .min = 0.001,
             .max = 3600},
            &line.timeout);
  flags.Add({.name = "tls_ca_file",
             .unit = "FILE",
             .help = "Certificates that sign the coordinator's; turns TLS on."},
            &line.credentials.tls_ca_file);
  flags.Add({.name = "tls_cert_file",
             .unit = "FILE",
             .help = "Own certificate, where the coordinator asks for one."},
            &line.credentials.tls_cert_file);
  flags.Add({.name = "tls_key_file",
             .unit = "FILE",
             .help = "The certificate's private key."},
            &line.credentials.tls_key_file);
  flags.Add({.name = "token_file",
             .unit = "FILE",
             .help = "Own bearer token, in place of a certificate; only its "
                     "owner may be able to read the file. Needs TLS."},
            &line.credentials.token_file);
  flags.Add(
      {.name = "insecure", .help = "Allow clear text to another machine."},
      &line.credentials.insecure);
}

// A flag that takes "train.steps=60", repeatable.
void AddSetFlag(FlagSet& command, std::vector<std::string>& assignments) {
  command.Add({.name = "set",
               .unit = "FIELD=VALUE",
               .help = "Change a field of the job file, as in --set "
                       "train.steps=60; may be repeated."},
              &assignments);
}

void AddSubmissionCommands(FlagSet& flags, CommandLine& line) {
  FlagSet& local = flags.AddCommand(
      "local",
      "Train a job on this machine: starts a coordinator and workers for it.");
  local.AddArgument("JOB_FILE", "The job file (docs/jobs.md).",
                    /*is_required=*/true, &line.local.job_file);
  local.Add({.name = "workers",
             .short_name = 'n',
             .unit = "N",
             .help = "Workers to start; 0: as many as the job takes.",
             .min = 0,
             .max = 1024},
            &line.local.workers);
  local.Add({.name = "threads",
             .unit = "N",
             .help = "Threads that each worker computes with.",
             .min = 1,
             .max = 256},
            &line.local.threads);
  AddSetFlag(local, line.local.assignments);
  local.Add({.name = "page_port",
             .unit = "PORT",
             .help = "Port of the web page that shows the run, on 127.0.0.1; "
                     "0: any free one; -1: no page.",
             .min = -1,
             .max = 65535},
            &line.local.page_port);
  local.Add({.name = "bin_dir",
             .unit = "DIR",
             .help = "Where the programs coordinator and worker are; beside "
                     "ringctl unless given.",
             .is_place = true},
            &line.local.bin_dir);
  local.Add({.name = "run_dir",
             .unit = "DIR",
             .help = "Where logs go; a new ./ringmaster-run-TIME unless given.",
             .is_place = true},
            &line.local.run_dir);

  FlagSet& submit = flags.AddCommand("submit", "Queue a job.");
  submit.AddArgument("JOB_FILE",
                     "The job file (docs/jobs.md); -: standard input.",
                     /*is_required=*/true, &line.submit.job_file);
  AddSetFlag(submit, line.submit.assignments);
  submit.Add({.name = "dry_run",
              .help = "Only check the job, and print it with its defaults."},
             &line.submit.is_dry_run);
  submit.Add({.name = "watch",
              .help = "Follow the job to its end, and end with its exit code."},
             &line.submit.is_watched);
  submit.Add({.name = "request_id",
              .unit = "ID",
              .help = "Chosen by you: submitting the same job again with the "
                      "same one returns the first one's job. Drawn at random "
                      "unless given."},
             &line.submit.request_id);
}

void AddJobCommands(FlagSet& flags, CommandLine& line) {
  const auto add = [&](const char* name, const char* summary,
                       bool is_required) -> FlagSet& {
    FlagSet& command = flags.AddCommand(name, summary);
    command.AddArgument(
        "JOB",
        "Id of the job, or its name: the live job of that name, or the newest "
        "that ended.",
        is_required, &line.job);
    return command;
  };
  AddStatusFlags(
      flags.AddCommand("status", "The coordinator, its workers and jobs."),
      line.shown);
  AddTopCommand(flags, line.top);
  AddJobsFlags(flags.AddCommand("jobs", "The jobs, one a line, newest first."),
               line.jobs);
  add("job", "One job in full.", true);
  AddDescribeCommand(flags, line.described);
  add("explain", "Why a job is where it is, and who keeps it waiting.", true);
  AddStatusFlags(flags.AddCommand("workers", "The workers, one a line."),
                 line.shown);
  AddEventsFlags(add("events", "What happened, to a job or to all.", false),
                 line.events);
  AddLogsCommand(flags, line.logs);
  add("watch", "Follow a job to its end, and end with its exit code.", true);
  FlagSet& cancel =
      add("cancel", "Stop a job at a step that its workers agree on.", true);
  cancel.Add(
      {.name = "reason", .unit = "TEXT", .help = "Shown in the job's events."},
      &line.reason);
  const auto add_change = [&](const char* name,
                              const char* summary) -> FlagSet& {
    FlagSet& command = add(name, summary, true);
    command.Add({.name = "reason",
                 .unit = "TEXT",
                 .help = "Shown in the job's events."},
                &line.change_reason);
    return command;
  };
  add_change("priority",
             "Let a job come before those with a lower priority, or after "
             "those with a higher one.")
      .AddArgument("PRIORITY", "A number from -1000 to 1000.",
                   /*is_required=*/true, &line.priority);
  add_change("scale",
             "Let a job take fewer workers, or more, without losing a step.")
      .AddArgument("WORKERS",
                   "How many: a number, or the fewest and the most, as 2..8.",
                   /*is_required=*/true, &line.workers);
  add_change("move", "Put a job into another queue.")
      .AddArgument("QUEUE", "The queue's name.", /*is_required=*/true,
                   &line.queue);
  add_change("suspend",
             "Let a job give its workers back and wait until it is resumed. "
             "It loses no step; commands begin anew.");
  add_change("resume", "Let a job that was suspended go on.");
  FlagSet& trace = add("trace",
                       "What each rank did when, as Chrome-trace JSON for "
                       "https://ui.perfetto.dev.",
                       true);
  trace.Add({.name = "file",
             .short_name = 'f',
             .unit = "FILE",
             .help = "Where to write it; stdout unless given."},
            &line.trace.file);
  trace.Add({.name = "first_step", .help = "First step of interest.", .min = 0},
            &line.trace.first_step);
  trace.Add({.name = "last_step",
             .help = "Last step of interest; 0 is the newest.",
             .min = 0},
            &line.trace.last_step);
  AddFlightFlags(
      add("flight",
          "Which collective each rank is in and whom it waits for, or was and "
          "did when an incident interrupted the job.",
          true),
      line.flight);
  AddCordonCommands(flags, line.cordon);
  flags
      .AddCommand("queues",
                  "The shares of the pool: quotas, limits, and who uses them.")
      .Add({.name = "apply",
            .unit = "FILE",
            .help = "First let the queues be those of this file, in YAML "
                    "(docs/jobs.md), in place of all before. For operators."},
           &line.queues_file);
  AddBundleCommand(flags, line.bundle);
  AddAuditCommand(flags, line.audit);
  flags.AddCommand("version", "Versions of ringctl and of the coordinator.");
}

// Ends the program from the thread of Interrupts; children die with it.
[[noreturn]] void ExitAfterSignal(Console& console) {
  if (console.IsTerminal())
    console.Write(absl::StrCat(std::string(kShowCursor), "\n"));
  ::_exit(static_cast<int>(ExitCode::kStopped));
}

absl::StatusOr<ClientOptions> ToClientOptions(const CommandLine& line) {
  const std::string text =
      line.coordinator.empty() ? kDefaultCoordinator : line.coordinator;
  absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--coordinator=", text, ": ", std::string(address.status().message())));
  }
  ASSIGN_OR_RETURN(
      auto credentials,
      MakeChannelCredentials(line.credentials, address->ToString()));
  return ClientOptions{.address = address->ToString(),
                       .credentials = std::move(credentials),
                       .timeout = line.timeout};
}

absl::StatusOr<int> BundleAtCoordinator(const CommandLine& line,
                                        Console& console, Clock& clock) {
  const std::string path = line.bundle.file.empty()
                               ? BundleName(line.bundle.job, absl::Now())
                               : line.bundle.file;
  NewFile file(path, line.bundle.may_replace);
  const Interrupts interrupts([&](int) {
    file.GiveUp();
    ExitAfterSignal(console);
  });
  ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
  Client client(std::move(options));
  return RunBundle({console, clock, client, line.format()}, line.bundle.job,
                   path, file);
}

absl::StatusOr<int> RunAtCoordinator(const std::string& command,
                                     CommandLine& line, Console& console,
                                     Clock& clock) {
  const Interrupts interrupts([&console](int) { ExitAfterSignal(console); });
  ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
  Client client(std::move(options));
  const CommandContext context{console, clock, client, line.format()};
  if (command == "status") return RunStatus(context, line.shown);
  if (command == "workers") return RunWorkers(context, line.shown);
  if (command == "top") return RunTop(context, line.top);
  if (command == "job") return RunJob(context, line.job);
  if (command == "explain") return RunExplain(context, line.job);
  if (command == "jobs") {
    line.jobs.is_wide = line.output == "wide";
    return RunJobs(context, line.jobs);
  }
  if (command == "events") {
    line.events.job = line.job;
    return RunEvents(context, line.events);
  }
  if (command == "describe") return RunDescribe(context, line.described);
  if (command == "logs") return RunLogs(context, line.logs);
  if (command == "watch") return RunWatch(context, line.job);
  if (command == "cancel") return RunCancel(context, line.job, line.reason);
  if (command == "priority")
    return RunPriority(context, line.job, line.priority, line.change_reason);
  if (command == "scale")
    return RunScale(context, line.job, line.workers, line.change_reason);
  if (command == "move")
    return RunMove(context, line.job, line.queue, line.change_reason);
  if (command == "suspend" || command == "resume") {
    return RunSuspend(context, line.job, command == "suspend",
                      line.change_reason);
  }
  if (command == "submit") return RunSubmit(context, line.submit);
  if (command == "cordon" || command == "drain" || command == "uncordon")
    return RunCordon(context, command, line.cordon);
  if (command == "queues") return RunQueues(context, line.queues_file);
  if (command == "audit") return RunAudit(context, line.audit);
  if (command == "version") return RunVersion(context);
  if (command == "flight") return RunFlight(context, line.job, line.flight);
  line.trace.job = line.job;
  return RunTrace(context, line.trace);
}

// The first interrupt asks for an orderly end, the second one forces it.
class PoliteInterrupts {
 public:
  explicit PoliteInterrupts(Console& console)
      : interrupts_([this, &console](int) {
          if (signals_.fetch_add(1) > 0) ExitAfterSignal(console);
          bell_.Ring();
        }) {}

  [[nodiscard]] Bell& bell() { return bell_; }
  [[nodiscard]] bool has_come() const { return signals_.load() > 0; }

 private:
  Bell bell_;
  std::atomic<int> signals_ = 0;
  const Interrupts interrupts_;
};

absl::StatusOr<int> BenchAtCoordinator(const CommandLine& line,
                                       Console& console, Clock& clock) {
  PoliteInterrupts interrupts(console);
  ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
  Client client(std::move(options));
  return RunClusterBench(
      {console, clock, client, line.format()},
      {.flags = line.bench, .bell = interrupts.bell(), .is_interrupted = [&] {
         return interrupts.has_come();
       }});
}

absl::StatusOr<int> RunHere(CommandLine& line, Console& console, Clock& clock) {
  PoliteInterrupts interrupts(console);
  line.local.timeout = line.timeout;
  return RunLocal({.console = console,
                   .clock = clock,
                   .format = line.format(),
                   .bell = interrupts.bell(),
                   .is_interrupted = [&] { return interrupts.has_come(); }},
                  line.local);
}

absl::StatusOr<int> RunCommands(const CommandLine& line, Console& console,
                                Clock& clock) {
  PoliteInterrupts interrupts(console);
  std::unique_ptr<Client> cluster;
  if (!line.coordinator.empty()) {
    ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
    cluster = std::make_unique<Client>(std::move(options));
  }
  return RunRun({.console = console,
                 .clock = clock,
                 .bell = interrupts.bell(),
                 .is_interrupted = [&] { return interrupts.has_come(); },
                 .timeout = line.timeout,
                 .cluster = cluster.get()},
                line.run);
}

absl::StatusOr<int> LookAtCheckpoints(const std::string& command,
                                      const CommandLine& line,
                                      Console& console) {
  const Interrupts interrupts([&console](int) { ExitAfterSignal(console); });
  return RunCheckpoint(command, line.checkpoint, line.format(), console);
}

absl::StatusOr<int> KeepState(const std::string& command,
                              const CommandLine& line, Console& console) {
  NewFile file(StateFileOf(command, line.state), line.state.may_replace,
               coordinator::kBackupMode);
  const Interrupts interrupts([&](int) {
    file.GiveUp();
    ExitAfterSignal(console);
  });
  return RunState(command, line.state, file, line.format(), console);
}

absl::StatusOr<int> Diagnose(const CommandLine& line, Console& console,
                             Clock& clock) {
  return RunDoctor(
      {.console = console,
       .clock = clock,
       .format = line.format(),
       .timeout = line.timeout,
       .coordinator = line.coordinator,
       .is_encrypted = HasTlsFlag(line.credentials),
       .connect = [&]() -> absl::StatusOr<std::unique_ptr<Client>> {
         ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
         return std::make_unique<Client>(std::move(options));
       }},
      line.doctor);
}

absl::StatusOr<int> CompareModes(std::span<const std::string> args,
                                 const CommandLine& line, Console& console,
                                 Clock& clock) {
  PoliteInterrupts interrupts(console);
  std::unique_ptr<Client> cluster;
  if (!line.coordinator.empty()) {
    ASSIGN_OR_RETURN(ClientOptions options, ToClientOptions(line));
    cluster = std::make_unique<Client>(std::move(options));
  }
  return RunCompare(
      {.console = console,
       .clock = clock,
       .bell = interrupts.bell(),
       .is_interrupted = [&] { return interrupts.has_come(); },
       .command = absl::StrCat("ringctl ", absl::StrJoin(args, " ")),
       .format = line.format(),
       .timeout = line.timeout,
       .cluster = cluster.get()},
      line.compare);
}

}  // namespace

int RunCommandLine(std::span<const std::string> args, Console& console,
                   Clock& clock) {
  CommandLine line;
  FlagSet flags("ringctl",
                "Submits, watches and ends jobs of a Ringmaster coordinator, "
                "or trains one on this machine alone. Ends "
                "with the exit code of the job that it watched, else with one "
                "of those below.");
  AddGlobalFlags(flags, line);
  AddSubmissionCommands(flags, line);
  AddRunCommand(flags, line.run);
  AddJobCommands(flags, line);
  AddSampleCommand(flags, line.sample);
  AddCheckpointCommand(flags, line.checkpoint);
  AddStateCommand(flags, line.state);
  AddPkiCommand(flags, line.pki);
  AddCompletionCommand(flags, line.shell);
  AddBenchFlags(flags, line.bench);
  AddCompareCommand(flags, line.compare);
  AddDoctorCommand(flags, line.doctor);
  const auto fail = [&](const absl::Status& status) {
    console.WriteError(
        absl::StrCat("error: ", std::string(status.message()), "\n"));
    return static_cast<int>(ExitCodeOf(status));
  };
  const absl::StatusOr<FlagSet::Parsed> parsed = flags.Parse(args);
  if (!parsed.ok()) return fail(parsed.status());
  if (!parsed->is_run) {
    console.Write(parsed->text);
    return static_cast<int>(ExitCode::kDone);
  }
  const std::string command = flags.command();
  if (command == "sample") {
    line.sample.is_json = line.format() == OutputFormat::kJson;
    return fail(ExecSample(line.sample));
  }
  if (command == "completion") {
    const absl::StatusOr<std::string> script =
        CompletionScript(line.shell, flags.Pages());
    if (!script.ok()) return fail(script.status());
    console.Write(*script);
    return static_cast<int>(ExitCode::kDone);
  }
  const absl::StatusOr<int> code =
      absl::StartsWith(command, "checkpoint ")
          ? LookAtCheckpoints(command, line, console)
      : absl::StartsWith(command, "pki ")
          ? RunPki(command, line.pki, absl::Now(), line.format(), console)
      : absl::StartsWith(command, "state ") ? KeepState(command, line, console)
      : command == "local"                  ? RunHere(line, console, clock)
      : command == "run"                    ? RunCommands(line, console, clock)
      : command == "compare" ? CompareModes(args, line, console, clock)
      : command == "doctor"  ? Diagnose(line, console, clock)
      : command == "bundle"  ? BundleAtCoordinator(line, console, clock)
      : command != "bench"   ? RunAtCoordinator(command, line, console, clock)
      : line.coordinator.empty() ? RunBench(line.bench, line.format(), console)
                                 : BenchAtCoordinator(line, console, clock);
  return code.ok() ? *code : fail(code.status());
}

}  // namespace ringmaster::ctl
