#include "worker/process/member_process.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/version.h"
#include "common/fail_point/fail_point.h"
#include "common/files/file_roots.h"
#include "common/logging/logging.h"
#include "common/machine/host_key.h"
#include "common/machine/memory_limits.h"
#include "common/plan/collective_costs.h"
#include "common/program/health.h"
#include "common/program/monitoring.h"
#include "common/program/program_flags.h"
#include "common/program/service_manager.h"
#include "common/protocol/labels.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/openssl_exit.h"
#include "common/secrets/random.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/periodic_thread.h"
#include "worker/agent/agent.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/collective/probe.h"
#include "worker/collective/probe_turn.h"
#include "worker/process/member_metrics.h"
#include "worker/supervisor/child_exit.h"
#include "worker/supervisor/signal_pipe.h"
#include "worker/supervisor/slot.h"
#include "worker/supervisor/supervisor.h"

namespace ringmaster {
namespace {

constexpr std::string_view kSlotFlag = "--slot=";
// The time that a child needs to end by itself, beyond its drain timeout.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

// Listens at `address`, or on a port of the range if there is one.
absl::StatusOr<Listener> ListenAt(const HostPort& address,
                                  const std::optional<PortRange>& range) {
  if (!range.has_value()) return Listener::Listen(address.ToString());
  return Listener::ListenInRange(address.host, range->first, range->last);
}

// The flag that says where to listen.
std::string_view ListenFlag(const WorkerFlags& flags) {
  if (flags.port_range.has_value()) return "--data_ports";
  return flags.data_interface.empty() ? "--data_listen" : "--data_interface";
}

// Listens where the flags say; where they leave it open and there is no IPv6,
// on IPv4 alone.
absl::StatusOr<Listener> Listen(const WorkerFlags& flags, int slot) {
  ASSIGN_OR_RETURN(const HostPort base, ParseHostPort(flags.data_listen));
  ASSIGN_OR_RETURN(const HostPort address, SlotAddress(base, slot));
  absl::StatusOr<Listener> listener = ListenAt(address, flags.port_range);
  if (absl::IsUnavailable(listener.status()) && address == HostPort{"::", 0}) {
    listener = ListenAt({"0.0.0.0", 0}, flags.port_range);
  }
  if (listener.ok()) return listener;
  const absl::Status status = Annotate(listener.status(), ListenFlag(flags));
  // A port of the range may be free again later.
  if (absl::IsResourceExhausted(status)) return status;
  return WithExitCode(status, ExitCode::kUsage);
}

absl::StatusOr<WorkerIdentity> Identify(const WorkerFlags& flags, int slot,
                                        int data_port) {
  WorkerIdentity identity;
  identity.name = SlotName(flags.name, slot, flags.slots);
  identity.incarnation = RandomIncarnation();
  identity.resume_key = RandomBytes(kKeyBytes);
  identity.host = ThisHostName();
  identity.host_key = ThisHostKey();
  identity.node = flags.node;
  identity.pid = getpid();
  identity.is_on_gpu = flags.device == "cuda";
  identity.device_index = flags.share_gpu ? 0 : slot;
  identity.advertise_host = flags.advertise;
  identity.data_port = data_port;
  identity.version = std::string(kVersion);
  identity.requires_encryption = flags.data_encryption == "required";
  identity.runs_commands = flags.allow_commands;
  ASSIGN_OR_RETURN(identity.labels, ParseLabels(flags.labels));
  identity.memory_bytes =
      std::max<int64_t>(0, MemoryLimitBytes()) / std::max(1, flags.slots);
  if (!flags.program.log_file.empty()) {
    identity.log_file =
        std::filesystem::absolute(flags.program.log_file).string();
  }
  if (const char* const end = std::getenv(kPredecessorVariable)) {
    ASSIGN_OR_RETURN(identity.predecessor, ParsePredecessor(end));
  }
  return identity;
}

// "1.3us 12.5GB/s".
std::string CostText(const PathCost& cost) {
  return absl::StrFormat("%.1fus %.1fGB/s", cost.latency * 1e6,
                         1e-9 / cost.seconds_per_byte);
}

// Measures the costs of collectives here, for the hello; returns nothing if
// another worker of this host is measuring them.
std::optional<ProbeResult> Probe(const WorkerFlags& flags) {
  const std::optional<ProbeTurn> turn = ProbeTurn::Take();
  if (!turn.has_value()) return std::nullopt;
  ProbeOptions options;
  options.clock = &Clock::Real();
  options.network_interface = flags.data_interface;
  return MeasureCosts(options);
}

void LogCosts(const std::optional<ProbeResult>& probe) {
  if (!probe.has_value()) {
    LogEvent(LogLevel::kInfo, "costs.left_to_another",
             {{"message", "another worker of this host is measuring"}});
    return;
  }
  for (const std::string& remark : probe->remarks)
    LogEvent(LogLevel::kDebug, "costs.not_measured", {{"message", remark}});
  if (!probe->has_path) return;
  const MachineCosts& costs = probe->costs;
  LogEvent(LogLevel::kInfo, "costs.measured",
           {{"shared_memory", CostText(costs.shared_memory)},
            {"unix", CostText(costs.unix_socket)},
            {"tcp", CostText(costs.tcp)},
            {"remote", CostText(costs.remote)},
            {"reduce_gb_per_s", 1e-9 / costs.reduce_seconds_per_byte},
            {"cores", costs.cores},
            {"seconds", absl::ToDoubleSeconds(probe->duration)}});
}

// Returns the address of `flag` with the slot's own port; empty stays empty.
absl::StatusOr<std::string> AddressOfSlot(std::string_view flag,
                                          const std::string& address,
                                          int slot) {
  if (address.empty()) return address;
  absl::StatusOr<HostPort> moved = ParseHostPort(address);
  if (moved.ok()) moved = SlotAddress(*moved, slot);
  if (moved.ok()) return moved->ToString();
  return WithExitCode(Annotate(moved.status(), flag), ExitCode::kUsage);
}

absl::StatusOr<MonitoringFlags> MonitoringOfSlot(const MonitoringFlags& flags,
                                                 int slot) {
  MonitoringFlags own;
  ASSIGN_OR_RETURN(
      own.metrics_listen,
      AddressOfSlot("--metrics_listen", flags.metrics_listen, slot));
  ASSIGN_OR_RETURN(own.health_listen,
                   AddressOfSlot("--health_listen", flags.health_listen, slot));
  return own;
}

Health CheckHealth(Agent& agent, bool is_attached) {
  if (!agent.Answers(kHealthPatience)) {
    return Health::Stuck(absl::DeadlineExceededError(
        absl::StrCat("the agent's thread has not answered for ",
                     absl::FormatDuration(kHealthPatience))));
  }
  if (is_attached) return {};
  return {.ready =
              absl::UnavailableError("has no session with the coordinator")};
}

// Runs one member in this process.
absl::StatusOr<ExitCode> RunSlot(const MemberProgram& program,
                                 const WorkerFlags& flags, int slot,
                                 const ServiceManager& service) {
  KeepOpenSslAtExit();
  SetResolverOptions();
  RETURN_IF_ERROR(StartLog(flags.program, program.name,
                           SlotName(flags.name, slot, flags.slots)));
  RedirectGrpcLog();
  std::signal(SIGPIPE, SIG_IGN);
  SignalPipe signals({SIGTERM, SIGINT});
  ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ChannelCredentials> credentials,
      MakeChannelCredentials(flags.credentials, flags.coordinator));
  ASSIGN_OR_RETURN(const Listener listener, Listen(flags, slot));
  ASSIGN_OR_RETURN(const std::unique_ptr<JobRunner> runner,
                   program.make_runner(listener, flags, slot));
  std::optional<ProbeResult> probe;
  if (program.measures_costs) {
    probe = Probe(flags);
    LogCosts(probe);
  }
  // Fail points that the probe passes do not count: they are for what follows.
  RETURN_IF_ERROR(FailPoint::ArmFromEnvironment());
  std::atomic<bool> is_attached = false;
  ASSIGN_OR_RETURN(const MonitoringFlags monitored,
                   MonitoringOfSlot(flags.monitoring, slot));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Monitoring> monitoring,
      Monitoring::Start(monitored, program.name, [&](MetricPage& page) {
        AddMemberMetrics(runner->progress(), is_attached.load(), page);
        page.AddSamples(runner->metrics());
      }));
  AgentOptions options;
  options.on_attached = [&is_attached](bool attached) {
    is_attached.store(attached);
  };
  options.coordinator = flags.coordinator;
  options.credentials = credentials;
  ASSIGN_OR_RETURN(options.identity, Identify(flags, slot, listener.port()));
  options.identity.role = program.role;
  if (probe.has_value() && probe->has_path)
    options.identity.costs = probe->costs;
  options.coordinator_timeout = flags.coordinator_timeout;
  options.drain_timeout = flags.drain_timeout;
  options.abort_timeout = flags.abort_timeout;
  options.max_jobs = flags.jobs;
  // Shorter than the time without any session, so that a name that belongs to
  // another worker is reported as the reason.
  options.name_wait = flags.coordinator_timeout / 2;
  LogEvent(LogLevel::kInfo, "process.starting",
           {{"coordinator", flags.coordinator},
            {"data_port", listener.port()},
            {"pid", getpid()},
            {"version", kVersion}});
  if (!listener.unix_status().ok()) {
    LogEvent(
        LogLevel::kInfo, "process.no_unix_socket",
        {{"message", absl::StrCat("ranks of this host are reached over TCP: ",
                                  listener.unix_status().message())}});
  }
  Agent agent(Clock::Real(), *runner, std::move(options));
  const SignalListener signal_listener(signals, [&](int signal) {
    service.Stopping();
    agent.Terminate(SignalName(signal));
  });
  service.Ready(absl::StrCat("works for coordinator ", flags.coordinator));
  std::unique_ptr<PeriodicThread> watchdog = service.Watch(
      Clock::Real(),
      [&agent](absl::Duration patience) { return agent.Answers(patience); });
  std::optional<PeriodicThread> health_check(
      std::in_place, Clock::Real(), kHealthInterval,
      [&] { monitoring->Set(CheckHealth(agent, is_attached.load())); });
  const Agent::End end = agent.AwaitEnd();
  watchdog.reset();
  health_check.reset();
  const bool is_wanted =
      end.code == ExitCode::kDone || end.code == ExitCode::kStopped;
  LogEvent(
      is_wanted ? LogLevel::kInfo : LogLevel::kError, "process.end",
      {{"exit_code", static_cast<int>(end.code)}, {"message", end.message}});
  // A runner that does not return must not keep the process.
  if (end.is_trainer_stuck) _exit(static_cast<int>(end.code));
  return end.code;
}

// Runs a child process a slot, and another one after it.
absl::StatusOr<ExitCode> RunSupervisor(const MemberProgram& program,
                                       const WorkerFlags& flags,
                                       const ServiceManager& service, int argc,
                                       char** argv) {
  RETURN_IF_ERROR(StartLog(flags.program, program.name, flags.name));
  // One line here instead of one from each child.
  RETURN_IF_ERROR(
      MakeChannelCredentials(flags.credentials, flags.coordinator).status());
  ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(flags.data_listen));
  RETURN_IF_ERROR(SlotAddress(listen, flags.slots - 1).status());
  RETURN_IF_ERROR(
      AddressOfSlot("--listen", flags.listen, flags.slots - 1).status());
  RETURN_IF_ERROR(MonitoringOfSlot(flags.monitoring, flags.slots - 1).status());
  SupervisorOptions options;
  options.arguments.assign(argv + 1, argv + argc);
  options.slot_count = flags.slots;
  options.name = flags.name;
  options.kill_after = flags.drain_timeout + kEndTimeout;
  if (flags.restart == "never") {
    options.restart = std::nullopt;
  } else {
    options.restart->max_crashes = flags.max_crashes;
  }
  service.Ready(absl::StrCat("watches over ", flags.slots, " slots"));
  Supervisor supervisor(Clock::Real(), std::move(options));
  const std::unique_ptr<PeriodicThread> watchdog = service.Watch(
      Clock::Real(),
      [&supervisor](absl::Duration) { return supervisor.IsTurning(); });
  return supervisor.Run();
}

absl::StatusOr<ExitCode> Run(const MemberProgram& program, WorkerFlags& flags,
                             std::optional<int> slot, int argc, char** argv) {
  const ServiceManager service = ServiceManager::FromEnvironment();
  RETURN_IF_ERROR(SettleWorkerFlags(flags));
  // Before there are threads. A parameter server has no such flags: it opens nothing that
  // a job names.
  ASSIGN_OR_RETURN(FileRoots files, FileRoots::Open(flags.files));
  LimitProcessFiles(std::move(files));
  if (slot.has_value()) return RunSlot(program, flags, *slot, service);
  RETURN_IF_ERROR(FollowParent(flags.program));
  if (NeedsSupervisor(flags))
    return RunSupervisor(program, flags, service, argc, argv);
  return RunSlot(program, flags, 0, service);
}

}  // namespace

int RunMember(const MemberProgram& program, int argc, char** argv) {
  // A supervisor's child gets its slot in front of everything else.
  std::optional<int> slot;
  if (argc > 1 &&
      std::string_view(argv[1]).substr(0, kSlotFlag.size()) == kSlotFlag) {
    slot = std::atoi(argv[1] + kSlotFlag.size());
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  WorkerFlags flags;
  flags.name = ThisHostName();
  FlagSet set(program.name, program.help);
  program.add_flags(set, flags);
  if (const auto code = set.ParseCommandLine(argc, argv); code.has_value()) {
    return static_cast<int>(*code);
  }
  const absl::StatusOr<ExitCode> code = Run(program, flags, slot, argc, argv);
  if (code.ok()) return static_cast<int>(*code);
  std::fprintf(stderr, "error: %s\n",
               std::string(code.status().message()).c_str());
  return static_cast<int>(ExitCodeOf(code.status()));
}

}  // namespace ringmaster
