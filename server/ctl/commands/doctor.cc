#include "server/ctl/commands/doctor.h"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/config/port_range.h"
#include "common/config/version.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/doctor/coordinator.h"
#include "server/ctl/doctor/cuda_build.h"
#include "server/ctl/doctor/disk.h"
#include "server/ctl/doctor/finding.h"
#include "server/ctl/doctor/gpu.h"
#include "server/ctl/doctor/machine.h"
#include "server/ctl/doctor/nccl.h"
#include "server/ctl/doctor/network.h"
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

std::vector<Finding> LookAtCoordinator(const DoctorContext& context) {
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
  return CoordinatorFindings(
      GatherCoordinatorFacts(**client, context.is_encrypted, context.clock),
      OwnVersion());
}

}  // namespace

void AddDoctorCommand(FlagSet& flags, DoctorFlags& doctor) {
  FlagSet& command = flags.AddCommand(
      "doctor",
      "Check this host before the first job: programs, cores, memory, GPUs, "
      "network, disks, and with --coordinator the way there. Each line is ok, "
      "a warning or a failure, with what to do.");
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
               .help = "Also check whether a coordinator could write there."},
              &doctor.state_dir);
  command.Add(
      {.name = "checkpoint",
       .unit = "DIR",
       .help = "Also check whether jobs could write checkpoints there."},
      &doctor.checkpoint);
  command.Add({.name = "bin_dir",
               .unit = "DIR",
               .help = "Where the other programs are; beside ringctl unless "
                       "given."},
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
  // Before any thread: they fork.
  Probes probes(AllProbes(flags, coordinator, ports));
  const Interrupts interrupts(
      [](int) { ::_exit(static_cast<int>(ExitCode::kStopped)); });
  std::vector<Finding> findings = probes.Await(context.timeout, context.clock);
  for (Finding& finding : LookAtCoordinator(context))
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
