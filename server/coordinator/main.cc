// The `coordinator` binary: flags in, a served runtime, an exit code out.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/access/access_control.h"
#include "common/access/access_file.h"
#include "common/clock/clock.h"
#include "common/config/address.h"
#include "common/config/flags.h"
#include "common/config/version.h"
#include "common/credentials/credentials.h"
#include "common/credentials/peer_trust.h"
#include "common/credentials/tls_files.h"
#include "common/credentials/tls_watch.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/program/health.h"
#include "common/program/monitoring.h"
#include "common/program/program_flags.h"
#include "common/program/service_manager.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/openssl_exit.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/periodic_thread.h"
#include "server/coordinator/access/method_roles.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/journal/journal_dump.h"
#include "server/coordinator/page/history_file.h"
#include "server/coordinator/page/page_server.h"
#include "server/coordinator/queues/queue_file.h"
#include "server/coordinator/rpc/limits.h"
#include "server/coordinator/rpc/metrics.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/server.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kShutdownGrace = absl::Seconds(5);
// A token that is revoked is refused after this time.
constexpr absl::Duration kAccessInterval = absl::Seconds(1);

struct CommandLine {
  std::string listen = "127.0.0.1:29400";
  std::string port_file;
  std::string page_listen;
  std::string page_port_file;
  std::string state_dir = "ringmaster-state";
  std::string access_file;
  std::string queues_file;
  std::string trust_domain;
  absl::Duration failure_budget = absl::Seconds(2);
  absl::Duration progress_cap;  // zero: by the failure budget
  bool is_dump = false;
  absl::Duration state_wait = absl::Minutes(10);
  absl::Duration overtake_time = absl::Minutes(10);
  int quarantine_faults = 3;
  bool takes_over = false;
  std::string data_encryption = "off";
  absl::Duration shutdown_delay = absl::Milliseconds(200);
  int max_queued_jobs = Config().max_queued_jobs;
  Limits limits;
  CredentialsOptions credentials;
  MonitoringFlags monitoring;
  ProgramFlags program;
};

void AddServiceFlags(FlagSet& flags, CommandLine& line) {
  flags.StartGroup("Service");
  flags.Add({.name = "listen",
             .unit = "HOST:PORT",
             .help = "Where workers and ringctl reach the coordinator. Port 0 "
                     "takes any free one. An address other than loopback "
                     "needs TLS, or --insecure."},
            &line.listen);
  flags.Add({.name = "port_file",
             .unit = "FILE",
             .help = "Write the port to this file once it listens; for "
                     "scripts that use port 0."},
            &line.port_file);
  flags.Add({.name = "page_listen",
             .unit = "HOST:PORT",
             .help = "Serve a web page that shows the pool, jobs and events. "
                     "Port 0 takes any free one; empty: no page. With TLS it "
                     "asks for a token of --access_file; without, it listens "
                     "on loopback only, whatever --insecure says."},
            &line.page_listen);
  flags.Add({.name = "page_port_file",
             .unit = "FILE",
             .help = "Write the page's port to this file, as --port_file."},
            &line.page_port_file);
  flags.Add({.name = "state_dir",
             .unit = "DIR",
             .help = "Directory of the journal: jobs and generations survive "
                     "the coordinator in it. Made if missing; one coordinator "
                     "at a time uses it."},
            &line.state_dir);
  flags.Add({.name = "dump_journal",
             .help = "Print the records of the journal in --state_dir, one per "
                     "line in JSON (ringmaster.v1.JournalRecord), and exit. A "
                     "coordinator may be using it meanwhile."},
            &line.is_dump);
  flags.Add(
      {.name = "failure_budget",
       .unit = "DURATION",
       .help =
           "Time within which a dead or frozen worker is detected and the "
           "others have halted; 200ms to 10m. Beats (a fifth of it, at most "
           "1s), leases (three quarters) and the other times follow from it; "
           "the log shows them at start. Raise it if hosts or networks stall."},
      &line.failure_budget);
  flags.Add(
      {.name = "progress_cap",
       .unit = "DURATION",
       .help = "A worker that is alive but stuck is given up when no worker "
               "has made progress for three times the longest gap so far, plus "
               "the failure budget; at the latest, and while nothing is known, "
               "after this time. At least a lease. 0s: a minute, or two leases "
               "if that is longer. Raise it if a single step may take longer."},
      &line.progress_cap);
  flags.Add({.name = "state_wait",
             .unit = "DURATION",
             .help = "A job whose newest step is held only by workers that "
                     "are not heard any more, and not known to have ended, "
                     "waits this long for them before it goes back to its "
                     "last checkpoint. Workers train on without a "
                     "coordinator for at least this long. 0s: it does not "
                     "wait.",
             .min = 0,
             .max = 7 * 24 * 3600},
            &line.state_wait);
  flags.Add({.name = "overtake_time",
             .unit = "DURATION",
             .help = "Jobs that need fewer workers begin before the first job "
                     "that lacks some. Once that has waited for this long, "
                     "those give way to it as soon as it can begin with their "
                     "workers. From then on jobs that keep no checkpoints, so "
                     "that they cannot give way, do not overtake it any more.",
             .min = 0,
             .max = 7 * 24 * 3600},
            &line.overtake_time);
  flags.Add({.name = "queues_file",
             .unit = "FILE",
             .help = "Queues with quotas, limits and weights, in YAML "
                     "(docs/jobs.md); followed while it runs. Without it, "
                     "operators set them with ringctl queues --apply."},
            &line.queues_file);
  flags.Add({.name = "take_over",
             .help = "The journal in --state_dir is an older copy, and the "
                     "coordinator that went on from it has ended for good: "
                     "take over from workers what the journal does not know. "
                     "Otherwise workers in a newer generation than the "
                     "journal's are sent away, and none is formed, since that "
                     "coordinator may still train with them."},
            &line.takes_over);
  flags.Add({.name = "data_encryption",
             .help = "required: workers and parameter servers encrypt what "
                     "they send each other between hosts, and those that "
                     "are not started with the same are refused. Needs TLS, "
                     "unless it listens on loopback.",
             .choices = {"off", "required"}},
            &line.data_encryption);
  flags.Add({.name = "quarantine_faults",
             .unit = "N",
             .help = "A host whose workers caused this many incidents within "
                     "ten minutes, and at least half of all, gives no workers "
                     "to jobs for the next ten minutes, unless a job would be "
                     "left with too few. 0: never."},
            &line.quarantine_faults);
  flags.Add(
      {.name = "shutdown_delay",
       .unit = "DURATION",
       .help = "After SIGTERM or SIGINT, health says NOT_SERVING for this long "
               "before sessions end; a second signal cuts it short. Workers "
               "keep training and wait for the next coordinator.",
       .min = 0,
       .max = 3600},
      &line.shutdown_delay);
}

// docs/operations.md lists them with all other bounds.
void AddLimitFlags(FlagSet& flags, int& max_queued_jobs, Limits& limits) {
  flags.StartGroup("Limits (beyond them, one line says which was reached)");
  flags.Add({.name = "max_queued_jobs",
             .unit = "N",
             .help = "Jobs that have not ended.",
             .min = 1,
             .max = 100'000},
            &max_queued_jobs);
  flags.Add({.name = "max_sessions",
             .unit = "N",
             .help = "Workers and parameter servers in the pool. Fewer, if the "
                     "limit of descriptors (ulimit -Hn) leaves no more.",
             .min = 1,
             .max = 100'000},
            &limits.sessions);
  flags.Add({.name = "max_watches",
             .unit = "N",
             .help = "Streams that follow a job or the status.",
             .min = 1,
             .max = 100'000},
            &limits.watches);
  flags.Add({.name = "max_waiting_calls",
             .unit = "N",
             .help = "Calls that wait for their turn, and as many that wait "
                     "for the disk.",
             .min = 1,
             .max = 1'000'000},
            &limits.waiting_calls);
  flags.Add({.name = "max_events",
             .unit = "N",
             .help = "Events that are kept in memory; the oldest are dropped.",
             .min = 100,
             .max = 10'000'000},
            &limits.events);
  flags.Add({.name = "max_gatherings",
             .unit = "N",
             .help = "Questions to workers, for their logs and traces, under "
                     "way at once.",
             .min = 1,
             .max = 10'000},
            &limits.gatherings);
}

void AddCredentialsFlags(FlagSet& flags, CredentialsOptions& credentials,
                         std::string& access_file, std::string& trust_domain) {
  flags.StartGroup(
      "Credentials (PEM files, followed while it runs), see docs/security.md");
  flags.Add({.name = "access_file",
             .unit = "FILE",
             .help = "Who has a bearer token, and the roles of certificates "
                     "that name none, in YAML. Only its owner may be able to "
                     "write it; a change holds for the next call. Needs TLS."},
            &access_file);
  flags.Add({.name = "trust_domain",
             .unit = "DOMAIN",
             .help = "Only certificates with a URI of this domain, "
                     "spiffe://DOMAIN/ringmaster/ROLE/NAME, have a role by "
                     "it; others are refused. Without it the authorities of "
                     "--tls_ca_file may name any. Needs TLS."},
            &trust_domain);
  flags.Add({.name = "tls_cert_file",
             .unit = "FILE",
             .help = "The coordinator's certificate, and any intermediate "
                     "ones; turns TLS on."},
            &credentials.tls_cert_file);
  flags.Add({.name = "tls_key_file",
             .unit = "FILE",
             .help = "The certificate's private key."},
            &credentials.tls_key_file);
  flags.Add({.name = "tls_ca_file",
             .unit = "FILE",
             .help = "Asks every client for a certificate that one of these "
                     "signed (mutual TLS), which says its role; with "
                     "--access_file a token will do."},
            &credentials.tls_ca_file);
  flags.Add({.name = "insecure",
             .help = "Allow clear text on an address that other machines can "
                     "reach."},
            &credentials.insecure);
}

// SIGTERM and SIGINT, which main waits for; every thread started later leaves
// them to it.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Readers see either nothing or the whole port.
absl::Status WritePortFile(std::string_view flag, const std::string& path,
                           int port) {
  if (path.empty()) return absl::OkStatus();
  const std::string part = absl::StrCat(path, ".", getpid());
  std::ofstream out(part);
  out << port << "\n";
  out.close();
  if (!out || std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(flag), ": cannot write ", path));
  }
  return absl::OkStatus();
}

// Waits for one of `signals`, up to `limit`.
void AwaitSignal(const sigset_t& signals, absl::Duration limit) {
  const timespec wait = absl::ToTimespec(limit);
  sigtimedwait(&signals, nullptr, &wait);
}

// Who is let in. Without TLS everybody is: `control` is null then, and there is no
// file.
struct Access {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::shared_ptr<AccessControl> control;
  std::shared_ptr<AccessFileWatch> file;
  std::shared_ptr<const TlsWatch> tls;  // null: there is no TLS
};

absl::StatusOr<Access> OpenAccess(const CommandLine& line,
                                  const HostPort& listen) {
  Access access;
  CredentialsOptions options = line.credentials;
  options.takes_tokens = !line.access_file.empty();
  if (options.takes_tokens && !HasTlsFlag(options)) {
    return absl::InvalidArgumentError(
        "--access_file: without TLS nobody can be told from another: give "
        "--tls_cert_file and --tls_key_file, too");
  }
  if (!line.trust_domain.empty()) {
    RETURN_IF_ERROR(
        Annotate(CheckTrustDomain(line.trust_domain), "--trust_domain"));
    if (!HasTlsFlag(options)) {
      return absl::InvalidArgumentError(
          "--trust_domain: there are no certificates without TLS: give "
          "--tls_ca_file, --tls_cert_file and --tls_key_file, too");
    }
  }
  ASSIGN_OR_RETURN(access.credentials,
                   MakeServerCredentials(options, listen.ToString()));
  if (!HasTlsFlag(options)) {
    if (line.data_encryption != "required" || IsLoopback(listen.host))
      return access;
    return absl::InvalidArgumentError(
        "--data_encryption=required needs TLS, since the secret that the keys "
        "come from goes through the coordinator: give --tls_cert_file and "
        "--tls_key_file");
  }
  AccessRules rules;
  if (options.takes_tokens) {
    access.file = std::make_shared<AccessFileWatch>(line.access_file);
    absl::StatusOr<std::optional<AccessRules>> read = access.file->Poll();
    if (!read.ok()) return Annotate(read.status(), "--access_file");
    rules = **std::move(read);
  }
  ASSIGN_OR_RETURN(access.tls, FollowTlsFiles(options));
  access.control = std::make_shared<AccessControl>(
      MethodTable(), std::move(rules), line.trust_domain,
      std::make_shared<PeerTrust>(access.tls));
  return access;
}

// Ends what the authorities of a new CA file do not let in any more. `last` is what was
// there at the last look.
void FollowAuthorities(const Access& access, CoordinatorServer& server,
                       std::shared_ptr<const TlsFiles>& last) {
  if (access.tls == nullptr) return;
  std::shared_ptr<const TlsFiles> files = access.tls->files();
  if (std::exchange(last, files) != files) server.EndRefusedCalls();
}

// Takes over what has changed in the access file. One that is wrong changes nothing.
void FollowAccessFile(const Access& access, CoordinatorRuntime& runtime,
                      CoordinatorServer& server) {
  if (access.file == nullptr) return;
  absl::StatusOr<std::optional<AccessRules>> read = access.file->Poll();
  if (!read.ok()) {
    LogEvent(LogLevel::kError, "access.file_refused",
             {{"error", std::string(read.status().message())}});
    return;
  }
  if (!read->has_value()) return;
  access.control->Replace(**std::move(read));
  server.EndRefusedCalls();
  AuditedRecord entry;
  entry.caller.name = access.file->owner();
  entry.caller.address = "unix";
  entry.action = "access";
  entry.object = access.file->path();
  runtime.NoteChange(std::move(entry));
}

// Takes over what the file of queues says. One that is wrong changes nothing.
void FollowQueueFile(QueueFileWatch& watch, CoordinatorRuntime& runtime) {
  if (const absl::Status read = watch.Poll(); !read.ok()) {
    LogEvent(LogLevel::kError, "queues.file_refused",
             {{"error", std::string(read.message())}});
  }
  if (!watch.file().has_value()) return;
  Caller owner;
  owner.name = watch.path();
  owner.address = "unix";
  runtime.FollowQueues(*watch.file(), std::move(owner));
}

// Null: no page is wanted.
absl::StatusOr<std::unique_ptr<PageServer>> StartPage(
    const CommandLine& line, const Access& access,
    CoordinatorRuntime& runtime) {
  if (line.page_listen.empty()) return nullptr;
  PageOptions options;
  const absl::StatusOr<HostPort> listen = ParseHostPort(line.page_listen);
  if (!listen.ok()) return Annotate(listen.status(), "--page_listen");
  options.listen = *listen;
  options.history_file = absl::StrCat(line.state_dir, "/", kHistoryFile);
  const bool has_tls = HasTlsFlag(line.credentials);
  RETURN_IF_ERROR(
      CheckPageAddress(*listen, has_tls, !line.access_file.empty()));
  if (has_tls) {
    CredentialsOptions credentials = line.credentials;
    credentials.takes_tokens = true;
    ASSIGN_OR_RETURN(options.tls, FollowTlsFiles(credentials));
    options.access = access.control;
  }
  absl::StatusOr<std::unique_ptr<PageServer>> page =
      PageServer::Start(runtime, std::move(options));
  if (!page.ok()) return Annotate(page.status(), "--page_listen");
  RETURN_IF_ERROR(WritePortFile("--page_port_file", line.page_port_file,
                                (*page)->address().port));
  LogEvent(LogLevel::kInfo, "page.listening", {{"url", (*page)->url()}});
  return page;
}

absl::Status Serve(const CommandLine& line, const sigset_t& signals,
                   const ServiceManager& service) {
  KeepOpenSslAtExit();
  RETURN_IF_ERROR(FailPoint::ArmFromEnvironment());
  RETURN_IF_ERROR(StartLog(line.program, "coordinator", ""));
  RedirectGrpcLog();
  RETURN_IF_ERROR(FollowParent(line.program));
  const absl::StatusOr<HostPort> listen = ParseHostPort(line.listen);
  if (!listen.ok()) return Annotate(listen.status(), "--listen");
  Config config =
      Config::FromFailureBudget(line.failure_budget, line.progress_cap);
  config.state_wait = line.state_wait;
  config.overtake_time = line.overtake_time;
  config.quarantine_faults = line.quarantine_faults;
  config.takes_over = line.takes_over;
  config.requires_encryption = line.data_encryption == "required";
  config.max_queued_jobs = line.max_queued_jobs;
  config.queues_file = line.queues_file;
  RETURN_IF_ERROR(config.Validate());
  // What is wrong at the start is an error, later it is only refused.
  QueueFileWatch queues(line.queues_file);
  RETURN_IF_ERROR(Annotate(queues.Poll(), "--queues_file"));
  ASSIGN_OR_RETURN(const Access access, OpenAccess(line, *listen));
  RaiseDescriptorLimit();
  Limits limits = line.limits;
  limits.sessions =
      std::clamp(DescriptorShares::Now(Acceptor::kMaxStrangers).members, 1,
                 limits.sessions);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<CoordinatorRuntime> runtime,
      CoordinatorRuntime::Start({.config = config,
                                 .limits = limits,
                                 .state_dir = line.state_dir,
                                 .version = std::string(kVersion)}));
  FollowQueueFile(queues, *runtime);
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorServer> server,
                   CoordinatorServer::Start(
                       *runtime, *listen, access.credentials, access.control));
  RuntimeMetrics metrics(*runtime);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Monitoring> monitoring,
      Monitoring::Start(line.monitoring, "coordinator", [&](MetricPage& page) {
        metrics.AddTo(page);
        server->AddMetrics(page);
      }));
  ASSIGN_OR_RETURN(const std::unique_ptr<PageServer> page,
                   StartPage(line, access, *runtime));
  RETURN_IF_ERROR(
      WritePortFile("--port_file", line.port_file, server->address().port));
  LogEvent(LogLevel::kInfo, "coordinator.listening",
           {{"address", server->address().ToString()},
            {"state_dir", line.state_dir},
            {"times", config.Times()},
            {"max_sessions", limits.sessions},
            {"pid", getpid()},
            {"version", kVersion}});
  service.Ready(absl::StrCat("listens on ", server->address().ToString()));
  const std::unique_ptr<PeriodicThread> watchdog = service.Watch(
      Clock::Real(),
      [&](absl::Duration patience) { return runtime->Answers(patience); });
  std::optional<PeriodicThread> health_check(
      std::in_place, Clock::Real(), kHealthInterval, [&] {
        const Health health = runtime->CheckHealth(kHealthPatience);
        monitoring->Set(health);
        server->SetServing(health.live.ok());
      });

  std::shared_ptr<const TlsFiles> tls_files;
  std::optional<PeriodicThread> access_check(
      std::in_place, Clock::Real(), kAccessInterval, [&] {
        FollowAuthorities(access, *server, tls_files);
        FollowAccessFile(access, *runtime, *server);
        FollowQueueFile(queues, *runtime);
      });

  int signal = 0;
  sigwait(&signals, &signal);
  LogEvent(LogLevel::kInfo, "coordinator.stopping",
           {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  service.Stopping();
  server->AnnounceShutdown();
  health_check.reset();
  access_check.reset();
  monitoring->Set({.ready = absl::UnavailableError("is about to end")});
  AwaitSignal(signals, line.shutdown_delay);
  // Its requests may still be under way, which must not delay the others' end.
  if (page != nullptr) page->Stop();
  runtime->Shutdown();
  server->Shutdown(kShutdownGrace);
  return WithExitCode(absl::CancelledError("stopped"), ExitCode::kStopped);
}

int EndWith(const absl::Status& status) {
  const ExitCode code = ExitCodeOf(status);
  if (code != ExitCode::kStopped && code != ExitCode::kDone) {
    std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  }
  return static_cast<int>(code);
}

int Main(int argc, char** argv) {
  CommandLine line;
  FlagSet flags("coordinator",
                "Gathers workers, gives them ranks, queues jobs, finds failed "
                "workers and re-forms the others. Serves workers and users "
                "over gRPC (services ringmaster.v1.*, grpc.health.v1, "
                "reflection). Ends with 143 after SIGTERM or SIGINT and with 2 "
                "on a wrong flag, a taken port or an unusable state "
                "directory.");
  AddServiceFlags(flags, line);
  AddLimitFlags(flags, line.max_queued_jobs, line.limits);
  AddCredentialsFlags(flags, line.credentials, line.access_file,
                      line.trust_domain);
  AddMonitoringFlags(
      "serves, its journal can be written, and it is not about to end", flags,
      line.monitoring);
  AddProgramFlags(flags, line.program);
  if (const auto code = flags.ParseCommandLine(argc, argv); code.has_value()) {
    return static_cast<int>(*code);
  }
  if (line.is_dump) return EndWith(DumpJournal(line.state_dir, std::cout));
  const ServiceManager service = ServiceManager::FromEnvironment();
  const sigset_t signals = BlockStopSignals();
  return EndWith(Serve(line, signals, service));
}

}  // namespace
}  // namespace ringmaster::coordinator

int main(int argc, char** argv) {
  return ringmaster::coordinator::Main(argc, argv);
}
