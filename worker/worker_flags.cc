#include "worker/worker_flags.h"

#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/access/access_control.h"
#include "common/files/file_flags.h"
#include "common/protocol/labels.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_address.h"

namespace ringmaster {
namespace {

void AddPlaceFlags(FlagSet& set, WorkerFlags& flags) {
  set.StartGroup("Coordinator");
  set.Add({.name = "coordinator",
           .unit = "HOST:PORT",
           .help = "The coordinator to join.",
           .is_required = true},
          &flags.coordinator);
  set.Add({.name = "coordinator_timeout",
           .unit = "DURATION",
           .help = "Give up, with exit code 138, after this long without a "
                   "coordinator; a worker that has a job, no sooner than the "
                   "coordinator's --state_wait, and after a checkpoint. Until "
                   "then training goes on without it, and a name that does "
                   "not resolve is tried again. A worker whose own name is "
                   "taken waits for it for half as long.",
           .min = 0.001},
          &flags.coordinator_timeout);
  set.Add({.name = "drain_timeout",
           .unit = "DURATION",
           .help = "After SIGTERM or SIGINT it leaves its job at the "
                   "next step that all ranks agree on, once others hold what "
                   "it holds or a checkpoint is written, and waits at most "
                   "this long for it. A second signal ends it at once.",
           .min = 0},
          &flags.drain_timeout);
  set.Add({.name = "abort_timeout",
           .unit = "DURATION",
           .help = "If its part in a job does not end within this long of a "
                   "halt, because a device or a disk hangs, it ends with exit "
                   "code 138. Must exceed two passes of the model.",
           .min = 0.001},
          &flags.abort_timeout);

  set.Add({.name = "jobs",
           .unit = "N",
           .help = "End after this many jobs that it took part in: with 0 if "
                   "the last one succeeded or was cancelled, otherwise with "
                   "its exit code. 0: never.",
           .min = 0},
          &flags.jobs);

  set.StartGroup("Place");
  set.Add({.name = "name",
           .unit = "NAME",
           .help = "Name of this process, unique in the pool. With several "
                   "slots they are NAME-0, NAME-1, ..."},
          &flags.name);
  set.Add({.name = "slots",
           .unit = "N",
           .help = "Number of slots on this host, each a process of its own; "
                   "they end with this one.",
           .min = 1,
           .max = 1024},
          &flags.slots);
  set.Add({.name = "data_listen",
           .unit = "HOST:PORT",
           .help = "Where peers connect for gradients. Port 0 takes any free "
                   "one; slot K takes PORT+K. By default any port on all "
                   "addresses, or on loopback if the coordinator is there."},
          &flags.data_listen);
  set.Add({.name = "data_interface",
           .unit = "NAME",
           .help = "Network interface for gradients, as eth0, instead of "
                   "--data_listen: listen on its address, and advertise it."},
          &flags.data_interface);
  set.Add(
      {.name = "data_ports",
       .unit = "FIRST-LAST",
       .help = "Ports for gradients, if a firewall allows only certain ones, "
               "instead of --data_listen: each slot takes the first free one, "
               "and PyTorch's process groups of a job's commands others."},
      &flags.data_ports);
  set.Add({.name = "data_encryption",
           .help = "required: what ranks send each other between hosts is "
                   "encrypted, with AES-256-GCM. The coordinator must be "
                   "started with the same, and TLS must lead to it unless "
                   "it is on loopback.",
           .choices = {"off", "required"}},
          &flags.data_encryption);
  set.Add({.name = "advertise",
           .unit = "HOST",
           .help = "Address that peers use for this host; by default the one "
                   "that the coordinator sees."},
          &flags.advertise);
  set.Add({.name = "node",
           .unit = "NAME",
           .help = "Name of the machine, if this host is one of several "
                   "containers on it, such as the pods on a node of "
                   "Kubernetes. Jobs take all workers with the same name as "
                   "on one host: they are quarantined, drained and spread "
                   "together."},
          &flags.node);
}

void AddComputeFlags(FlagSet& set, WorkerFlags& flags) {
  set.StartGroup("Computing");
  set.Add({.name = "device",
           .help = "Device to compute on: this host's processor, or GPUs, one "
                   "per slot (slot 0 the first that CUDA_VISIBLE_DEVICES "
                   "shows). All workers of a job must compute on the same.",
           .choices = {"cpu", "cuda"}},
          &flags.device);
  set.Add({.name = "attention",
           .help = "Kernels for attention on GPUs: cuDNN's, ours, or cuDNN's "
                   "where available (auto).",
           .choices = {"auto", "cudnn", "ours"}},
          &flags.attention);
  set.Add({.name = "convolution",
           .help = "The same for convolutions.",
           .choices = {"auto", "cudnn", "ours"}},
          &flags.convolution);
  set.Add({.name = "cuda_graphs",
           .help = "On GPUs, launch repeated training passes as CUDA graphs "
                   "instead of kernel by kernel. Results are the same.",
           .choices = {"on", "off"}},
          &flags.cuda_graphs);
  set.Add({.name = "tuning_cache",
           .unit = "DIRECTORY",
           .help = "Directory in which workers on GPUs keep cuBLASLt's fastest "
                   "algorithms. By default each process measures them."},
          &flags.tuning_cache);
  set.Add({.name = "share_gpu",
           .help = "For tests: all slots compute on the first GPU, and NCCL "
                   "treats each as a separate host. Slow."},
          &flags.share_gpu);
  set.Add({.name = "threads",
           .unit = "N",
           .help = "Threads that each slot computes with. Results do not "
                   "depend on their number.",
           .min = 1,
           .max = 256},
          &flags.threads);
}

void AddRestartFlags(FlagSet& set, WorkerFlags& flags) {
  set.StartGroup("Restart");
  set.Add({.name = "restart",
           .help = "Restart the process of a slot when it was killed, lost its "
                   "coordinator or crashed: auto does so with several slots, "
                   "always also with one, under a supervising process.",
           .choices = {"auto", "always", "never"}},
          &flags.restart);
  set.Add(
      {.name = "max_crashes",
       .unit = "N",
       .help = "A slot that crashes more often than this within ten minutes is "
               "not restarted. Being killed does not count as a crash.",
       .min = 0,
       .max = 1000},
      &flags.max_crashes);
}

void AddCredentialsFlags(FlagSet& set, CredentialsOptions& credentials) {
  set.StartGroup("Credentials (PEM files, followed while it runs)");
  set.Add({.name = "tls_ca_file",
           .unit = "FILE",
           .help = "Certificates that sign the coordinator's; turns TLS on."},
          &credentials.tls_ca_file);
  set.Add(
      {.name = "tls_cert_file",
       .unit = "FILE",
       .help = "The certificate of this process, for a coordinator that asks "
               "for one."},
      &credentials.tls_cert_file);
  set.Add({.name = "tls_key_file",
           .unit = "FILE",
           .help = "The certificate's private key."},
          &credentials.tls_key_file);
  set.Add({.name = "token_file",
           .unit = "FILE",
           .help = "A bearer token, in place of a certificate; only its owner "
                   "may be able to read the file. Needs TLS."},
          &credentials.token_file);
  set.Add({.name = "insecure",
           .help = "Allow clear text to a coordinator on another machine."},
          &credentials.insecure);
}

absl::Status SettlePortRange(WorkerFlags& flags) {
  const absl::StatusOr<PortRange> range = ParsePortRange(flags.data_ports);
  if (!range.ok()) return Annotate(range.status(), "--data_ports");
  if (range->count() < flags.slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data_ports: ", flags.data_ports, " has ", range->count(),
        " ports, too few for --slots=", flags.slots));
  }
  flags.port_range = *range;
  return absl::OkStatus();
}

// Settles where the data plane listens and is reached.
absl::Status SettleDataPlane(WorkerFlags& flags, const HostPort& coordinator) {
  for (const auto& [name, value] :
       {std::pair("--data_interface", &flags.data_interface),
        std::pair("--data_ports", &flags.data_ports)}) {
    if (!value->empty() && !flags.data_listen.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, "=", *value, " and --data_listen=", flags.data_listen,
          " exclude each other; give one of them"));
    }
  }
  if (!flags.data_ports.empty()) RETURN_IF_ERROR(SettlePortRange(flags));
  if (!flags.data_interface.empty()) {
    absl::StatusOr<std::string> host = AddressOfInterface(flags.data_interface);
    if (!host.ok()) return Annotate(host.status(), "--data_interface");
    flags.data_listen = HostPort{*host, 0}.ToString();
    if (flags.advertise.empty()) flags.advertise = *std::move(host);
  }
  if (flags.data_listen.empty()) {
    const bool is_local = IsLoopback(coordinator.host);
    const std::string host = coordinator.host == "::1" ? "::1" : "127.0.0.1";
    flags.data_listen = HostPort{is_local ? host : "::", 0}.ToString();
    // `localhost` may have reached the coordinator by the other loopback.
    if (is_local && flags.advertise.empty()) flags.advertise = host;
  }
  const absl::StatusOr<HostPort> listen = ParseHostPort(flags.data_listen);
  if (!listen.ok()) return Annotate(listen.status(), "--data_listen");
  return absl::OkStatus();
}

}  // namespace

void AddWorkerFlags(FlagSet& set, WorkerFlags& flags) {
  AddPlaceFlags(set, flags);
  AddComputeFlags(set, flags);
  AddFileFlags(set, flags.files);
  set.Add({.name = "allow_commands",
           .help = "Run the commands of jobs with the program external, as "
                   "this process's user. Whoever may submit jobs can then do "
                   "on this host what that user can."},
          &flags.allow_commands);
  set.Add({.name = "labels",
           .unit = "KEY=VALUE,...",
           .help = "What this worker is, for jobs that ask for it "
                   "(workers.require), as in gpu=h100,zone=a. Each has the "
                   "labels device and host in any case."},
          &flags.labels);
  AddRestartFlags(set, flags);
  AddCredentialsFlags(set, flags.credentials);
  AddMonitoringFlags("has a session with the coordinator", set,
                     flags.monitoring);
  AddProgramFlags(set, flags.program);
}

void AddParameterServerFlags(FlagSet& set, WorkerFlags& flags) {
  AddPlaceFlags(set, flags);
  set.Add({.name = "listen",
           .unit = "HOST:PORT",
           .help = "Where tools read the parameters, and small clients push "
                   "gradients, over gRPC. Port 0 takes any free one; slot K "
                   "takes PORT+K. By default neither is possible."},
          &flags.listen);
  AddRestartFlags(set, flags);
  AddCredentialsFlags(set, flags.credentials);
  set.Add({.name = "trust_domain",
           .unit = "DOMAIN",
           .help = "Only certificates with a URI of this domain, "
                   "spiffe://DOMAIN/ringmaster/ROLE/NAME, may call --listen's "
                   "port. Without it the authorities of --tls_ca_file may "
                   "name any. Needs TLS."},
          &flags.trust_domain);
  AddMonitoringFlags("has a session with the coordinator", set,
                     flags.monitoring);
  AddProgramFlags(set, flags.program);
}

absl::Status SettleWorkerFlags(WorkerFlags& flags) {
  if (flags.share_gpu && flags.device != "cuda") {
    return absl::InvalidArgumentError(
        "--share_gpu is of --device=cuda, and this is --device=cpu");
  }
  const absl::StatusOr<HostPort> coordinator = ParseHostPort(flags.coordinator);
  if (!coordinator.ok()) {
    return Annotate(coordinator.status(), "--coordinator");
  }
  if (coordinator->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--coordinator: ", flags.coordinator,
                     " has port 0, where nobody can listen"));
  }
  if (flags.name.empty()) {
    return absl::InvalidArgumentError("--name is empty");
  }
  RETURN_IF_ERROR(Annotate(ParseLabels(flags.labels).status(), "--labels"));
  if (flags.data_encryption == "required" && !HasTlsFlag(flags.credentials) &&
      !IsLoopback(coordinator->host)) {
    return absl::InvalidArgumentError(
        "--data_encryption=required needs TLS to the coordinator, which tells "
        "the secret that the keys come from: give --tls_ca_file");
  }
  if (!flags.listen.empty()) {
    const absl::StatusOr<HostPort> listen = ParseHostPort(flags.listen);
    if (!listen.ok()) return Annotate(listen.status(), "--listen");
    if (flags.data_encryption == "required" && !HasTlsFlag(flags.credentials) &&
        !IsLoopback(listen->host)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--data_encryption=required needs TLS for --listen=", flags.listen,
          ", where parameters are served: give --tls_cert_file"));
    }
  }
  if (!flags.trust_domain.empty()) {
    RETURN_IF_ERROR(
        Annotate(CheckTrustDomain(flags.trust_domain), "--trust_domain"));
    if (flags.listen.empty() || !HasTlsFlag(flags.credentials)) {
      return absl::InvalidArgumentError(
          "--trust_domain is of who calls --listen's port with a certificate: "
          "give --listen, --tls_ca_file, --tls_cert_file and --tls_key_file, "
          "too");
    }
  }
  return SettleDataPlane(flags, *coordinator);
}

bool NeedsSupervisor(const WorkerFlags& flags) {
  return flags.slots > 1 || flags.restart == "always";
}

}  // namespace ringmaster
