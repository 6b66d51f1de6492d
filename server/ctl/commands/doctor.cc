#include "server/ctl/commands/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/config/address.h"
#include "common/config/port_range.h"
#include "common/config/version.h"
#include "common/credentials/tls_watch.h"
#include "common/job/job_spec.h"
#include "common/machine/usable_cores.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "server/ctl/commands/job_file.h"
#include "server/ctl/commands/warnings.h"
#include "server/ctl/doctor/certificate.h"
#include "server/ctl/doctor/coordinator.h"
#include "server/ctl/doctor/cuda_build.h"
#include "server/ctl/doctor/disk.h"
#include "server/ctl/doctor/finding.h"
#include "server/ctl/doctor/gpu.h"
#include "server/ctl/doctor/job.h"
#include "server/ctl/doctor/machine.h"
#include "server/ctl/doctor/nccl.h"
#include "server/ctl/doctor/network.h"
#include "server/ctl/doctor/peers.h"
#include "server/ctl/doctor/probes.h"
#include "server/ctl/doctor/programs.h"
#include "server/ctl/doctor/shared_memory.h"
#include "server/ctl/local/binaries.h"
#include "server/ctl/terminal/interrupts.h"

namespace ringmaster::ctl {
namespace {

const std::string& OwnVersion() {
  static const std::string* const version = new std::string(kVersion);
  return *version;
}

Probe DiskProbe(const std::string& flag, bool is_journal,
                const std::string& directory) {
  return {.name = flag,
          .look =
              [=] {
                return std::vector{
                    DiskFinding(flag, is_journal, GatherDiskFacts(directory))};
              },
          .level_of_silence = Level::kFailure,
          .remedy = absl::StrCat("see whether the disk or file server of ",
                                 directory, " answers")};
}

std::vector<Probe> MachineProbes(const DoctorFlags& flags) {
  const bool is_cuda_wanted = flags.device == "cuda";
  return {
      {.name = "programs",
       .look =
           [bin_dir = flags.bin_dir] {
             return ProgramFindings(GatherProgramFacts(OwnPlaces(bin_dir)),
                                    OwnVersion());
           },
       .remedy = "see whether the disk with the programs answers"},
      {.name = "machine",
       .look =
           [=] { return MachineFindings(GatherMachineFacts(is_cuda_wanted)); },
       .remedy = "look into the kernel's log (dmesg)"},
      {.name = "shared memory",
       .look =
           [=] {
             return SharedMemoryFindings(
                 GatherSharedMemoryFacts(is_cuda_wanted));
           },
       .remedy = "look into the kernel's log (dmesg)"},
      {.name = "GPUs",
       .look = [=] { return GpuFindings(GatherGpuFacts(is_cuda_wanted)); },
       .level_of_silence = is_cuda_wanted ? Level::kFailure : Level::kWarning,
       .remedy = "see whether `nvidia-smi` answers; else restart the driver"}};
}

// Each name by itself: a name server that is silent on one may know the other.
std::vector<Probe> NetworkProbes(const std::optional<HostPort>& coordinator) {
  const std::string remedy =
      "see whether the name servers in /etc/resolv.conf answer";
  std::vector<Probe> probes = {
      {.name = "network",
       .look = [=] { return NetworkFindings(coordinator); },
       .remedy = "look into the kernel's log (dmesg)"},
      {.name = "host name", .look = OwnNameFindings, .remedy = remedy}};
  if (coordinator.has_value()) {
    probes.push_back(
        {.name = "coordinator's name",
         .look = [=] { return CoordinatorNameFindings(*coordinator); },
         .level_of_silence = Level::kFailure,
         .remedy = absl::StrCat(remedy, ", or give an address")});
  }
  return probes;
}

// The ways between GPUs, which take NCCL seconds.
Probe NcclProbe() {
  return {.name = "NCCL's ways",
          .look =
              [] {
                const std::optional<NcclFacts> facts = GatherNcclFacts();
                return facts.has_value() ? NcclFindings(*facts)
                                         : std::vector<Finding>();
              },
          .remedy =
              "give it more time, --timeout=60s; see whether `nvidia-smi` "
              "answers"};
}

// A job and how many of its workers this host is to have.
struct CheckedJob {
  v1::JobSpec spec;
  int slots = 1;
};

absl::StatusOr<std::optional<CheckedJob>> LoadCheckedJob(
    const DoctorFlags& flags) {
  if (flags.job_file.empty()) {
    if (!flags.assignments.empty()) {
      return absl::InvalidArgumentError(
          "--set: changes a job file; name one: ringctl doctor JOB_FILE");
    }
    return std::nullopt;
  }
  CheckedJob job;
  ASSIGN_OR_RETURN(const v1::JobSpec spec,
                   LoadJobFile(flags.job_file, flags.assignments));
  absl::StatusOr<v1::JobSpec> checked = ValidateAndDefault(spec);
  if (!checked.ok())
    return Annotate(checked.status(), JobFileName(flags.job_file));
  job.spec = *std::move(checked);
  job.slots = flags.slots > 0
                  ? flags.slots
                  : std::min(job.spec.workers().max(), UsableCores());
  return job;
}

absl::StatusOr<std::vector<HostPort>> ParsePeers(const std::string& text) {
  std::vector<HostPort> peers;
  for (const absl::string_view peer :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    absl::StatusOr<HostPort> parsed =
        ParseHostPort(std::string_view(peer.data(), peer.size()));
    if (!parsed.ok()) return Annotate(parsed.status(), "--peers");
    peers.push_back(*std::move(parsed));
  }
  return peers;
}

// In a process each, for names wait for a name server.
Probe PeerProbe(const HostPort& peer, absl::Duration timeout) {
  return {.name = absl::StrCat("peer ", peer.ToString()),
          .look =
              [=] {
                std::vector<PeerFacts> peers = {
                    {.name = peer.ToString(), .address = peer.ToString()}};
                // Said here, before the process is given up.
                ReachAll(0.9 * timeout, Clock::Real(), peers);
                return std::vector{PeerFinding(peers.front())};
              },
          .level_of_silence = Level::kFailure,
          .remedy =
              "see whether the name servers in /etc/resolv.conf answer, "
              "or give an address"};
}

void AddJobProbes(const DoctorFlags& flags, const CheckedJob& job,
                  std::vector<Probe>& probes) {
  probes.push_back(
      {.name = "job",
       .look =
           [job, bin_dir = flags.bin_dir, is_cuda = flags.device == "cuda"] {
             const absl::StatusOr<std::string> worker =
                 FindBinary("worker", OwnPlaces(bin_dir));
             return JobPartFindings(
                 worker.ok() ? AskWorker(*worker, job.spec, job.slots, is_cuda)
                             : worker.status());
           },
       .level_of_silence = Level::kFailure,
       .remedy = "give it more time to read the data, --timeout=60s; see "
                 "whether the disk or file server of the data answers"});
  const std::string& directory = job.spec.train().checkpoint().directory();
  if (!directory.empty())
    probes.push_back(DiskProbe("job's checkpoints", false, directory));
}

Finding JobCoresFinding(const CheckedJob& job) {
  constexpr std::string_view kCheck = "job's cores";
  const int cores = UsableCores();
  const std::string warning = WarningOfCores(job.slots, 1, cores);
  if (!warning.empty()) {
    return Warn(kCheck, warning, "the job trains, but no faster for them",
                "start fewer slots on this host");
  }
  return Good(kCheck, absl::StrCat(job.slots, " of its workers on ", cores,
                                   cores == 1 ? " core" : " cores"));
}

std::vector<Probe> AllProbes(const DoctorFlags& flags,
                             const std::optional<HostPort>& coordinator,
                             const std::optional<PortRange>& ports) {
  std::vector<Probe> probes = MachineProbes(flags);
  if (flags.device == "cuda" && BuiltCuda().has_value())
    probes.push_back(NcclProbe());
  if (!flags.state_dir.empty())
    probes.push_back(DiskProbe("--state_dir", true, flags.state_dir));
  if (!flags.checkpoint.empty())
    probes.push_back(DiskProbe("--checkpoint", false, flags.checkpoint));
  for (Probe& probe : NetworkProbes(coordinator))
    probes.push_back(std::move(probe));
  if (ports.has_value()) {
    probes.push_back(
        {.name = "data ports",
         .look =
             [=] { return std::vector{PortsFinding(GatherPortFacts(*ports))}; },
         .remedy = "give fewer ports"});
  }
  return probes;
}

std::vector<Finding> LookAtCoordinator(const DoctorContext& context,
                                       const std::optional<CheckedJob>& job) {
  if (context.coordinator.empty()) {
    return {Good("coordinator",
                 "none given: this machine alone was looked at; name one with "
                 "--coordinator=HOST:PORT")};
  }
  const absl::StatusOr<std::unique_ptr<Client>> client = context.connect();
  if (!client.ok()) {
    return {Fail("coordinator", std::string(client.status().message()),
                 "no program can talk to it like that",
                 "correct the flag that the message names",
                 ExitCodeOf(client.status()))};
  }
  const CoordinatorFacts facts =
      GatherCoordinatorFacts(**client, context.is_encrypted, context.clock);
  std::vector<Finding> findings = CoordinatorFindings(facts, OwnVersion());
  // The client's, which has read it.
  for (const FollowedCertificate& each : FollowedCertificates())
    findings.push_back(CertificateFinding(each, absl::Now()));
  if (!facts.status.ok() || !job.has_value()) return findings;
  findings.push_back(PoolFinding(facts.pool, job->spec));
  std::vector<PeerFacts> workers = PeersOf(facts.pool);
  if (workers.empty()) return findings;
  // A signal ends the process.
  ReachAll(context.timeout, context.clock, workers);
  findings.push_back(WorkersFinding(workers));
  return findings;
}

}  // namespace

void AddDoctorCommand(FlagSet& flags, DoctorFlags& doctor) {
  FlagSet& command = flags.AddCommand(
      "doctor",
      "Check this host before the first job: programs, cores, memory, GPUs, "
      "network, disks, and with --coordinator the way there; with JOB_FILE "
      "also what that job needs. Each line is ok, a warning or a failure, with "
      "what to do.");
  command.AddArgument(
      "JOB_FILE",
      "Also check whether this host can train this job: its data, memory, "
      "checkpoints, and with --coordinator its workers and their ports.",
      /*is_required=*/false, &doctor.job_file);
  command.Add({.name = "set",
               .unit = "FIELD=VALUE",
               .help = "Change a field of the job file; may be repeated."},
              &doctor.assignments);
  command.Add({.name = "slots",
               .unit = "N",
               .help = "Workers of the job on this host. 0: as many as it "
                       "takes, and as there are cores.",
               .min = 0,
               .max = 4096},
              &doctor.slots);
  command.Add({.name = "peers",
               .unit = "HOST:PORT,HOST:PORT",
               .help = "Also check whether these, ports of workers on other "
                       "hosts, can be connected to."},
              &doctor.peers);
  command.Add({.name = "device",
               .help = "The device of this host's workers: with cuda, "
                       "everything that GPUs need is required.",
               .choices = {"cpu", "cuda"}},
              &doctor.device);
  command.Add({.name = "data_ports",
               .unit = "FIRST-LAST",
               .help = "Also check whether these are free for workers."},
              &doctor.data_ports);
  command.Add({.name = "state_dir",
               .unit = "DIR",
               .help = "Also check whether a coordinator could write there.",
               .is_place = true},
              &doctor.state_dir);
  command.Add(
      {.name = "checkpoint",
       .unit = "DIR",
       .help = "Also check whether jobs could write checkpoints there."},
      &doctor.checkpoint);
  command.Add({.name = "bin_dir",
               .unit = "DIR",
               .help = "Where the other programs are; beside ringctl unless "
                       "given.",
               .is_place = true},
              &doctor.bin_dir);
}

absl::StatusOr<int> RunDoctor(const DoctorContext& context,
                              const DoctorFlags& flags) {
  std::optional<HostPort> coordinator;
  if (!context.coordinator.empty()) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(context.coordinator);
    if (!parsed.ok()) {
      return Annotate(parsed.status(),
                      absl::StrCat("--coordinator=", context.coordinator));
    }
    coordinator = *parsed;
  }
  std::optional<PortRange> ports;
  if (!flags.data_ports.empty()) {
    const absl::StatusOr<PortRange> range = ParsePortRange(flags.data_ports);
    if (!range.ok()) return Annotate(range.status(), "--data_ports");
    ports = *range;
  }
  ASSIGN_OR_RETURN(const std::vector<HostPort> peers, ParsePeers(flags.peers));
  ASSIGN_OR_RETURN(const std::optional<CheckedJob> job, LoadCheckedJob(flags));
  std::vector<Probe> all = AllProbes(flags, coordinator, ports);
  for (const HostPort& peer : peers)
    all.push_back(PeerProbe(peer, context.timeout));
  if (job.has_value()) AddJobProbes(flags, *job, all);
  // Before any thread: they fork.
  Probes probes(std::move(all));
  const Interrupts interrupts(
      [](int) { ::_exit(static_cast<int>(ExitCode::kStopped)); });
  std::vector<Finding> findings = probes.Await(context.timeout, context.clock);
  if (job.has_value()) findings.push_back(JobCoresFinding(*job));
  for (Finding& finding : LookAtCoordinator(context, job))
    findings.push_back(std::move(finding));
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJson(findings));
  } else {
    for (const std::string& line :
         FindingLines(findings, context.console.GetStyle())) {
      context.console.Write(absl::StrCat(line, "\n"));
    }
  }
  return static_cast<int>(ExitCodeOfFindings(findings));
}

}  // namespace ringmaster::ctl
