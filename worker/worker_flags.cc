#include "worker/worker_flags.h"

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"

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
                   "coordinator. Until then training goes on without it, and "
                   "a name that does not resolve is tried again.",
           .min = 0.001},
          &flags.coordinator_timeout);
  set.Add({.name = "drain_timeout",
           .unit = "DURATION",
           .help = "After SIGTERM or SIGINT the worker leaves its job at the "
                   "next step that all ranks agree on, and waits at most this "
                   "long for it. A second signal ends it at once.",
           .min = 0},
          &flags.drain_timeout);

  set.StartGroup("Place");
  set.Add({.name = "name",
           .unit = "NAME",
           .help = "Name of this worker, unique in the pool. With several "
                   "slots they are NAME-0, NAME-1, ..."},
          &flags.name);
  set.Add({.name = "device",
           .help = "What to compute on; only cpu so far.",
           .choices = {"cpu", "cuda"}},
          &flags.device);
  set.Add({.name = "slots",
           .unit = "N",
           .help = "Workers to run on this host, each a process with one "
                   "device; they end with this one.",
           .min = 1,
           .max = 1024},
          &flags.slots);
  set.Add({.name = "threads",
           .unit = "N",
           .help = "Threads that each slot computes with. What it computes "
                   "does not depend on it.",
           .min = 1,
           .max = 256},
          &flags.threads);
  set.Add({.name = "data_listen",
           .unit = "HOST:PORT",
           .help = "Where peers connect for gradients. Port 0 takes any free "
                   "one; slot K takes PORT+K. By default any port on all "
                   "addresses, or on loopback if the coordinator is there."},
          &flags.data_listen);
  set.Add({.name = "advertise",
           .unit = "HOST",
           .help = "Address that peers shall use for this host; by default "
                   "the one that the coordinator sees."},
          &flags.advertise);
}

void AddRestartFlags(FlagSet& set, WorkerFlags& flags) {
  set.StartGroup("Restart");
  set.Add({.name = "restart",
           .help = "Start the process of a slot again when it was killed, lost "
                   "its coordinator or crashed: auto does with several slots, "
                   "always also with one, below a process that watches it.",
           .choices = {"auto", "always", "never"}},
          &flags.restart);
  set.Add({.name = "max_crashes",
           .unit = "N",
           .help = "A slot that crashes more often than this within ten "
                   "minutes is not started again. A killed process has not "
                   "crashed.",
           .min = 0,
           .max = 1000},
          &flags.max_crashes);
}

void AddCredentialsFlags(FlagSet& set, CredentialsOptions& credentials) {
  set.StartGroup("Credentials (PEM files)");
  set.Add({.name = "tls_ca_file",
           .unit = "FILE",
           .help = "Certificates that sign the coordinator's; turns TLS on."},
          &credentials.tls_ca_file);
  set.Add({.name = "tls_cert_file",
           .unit = "FILE",
           .help = "This worker's certificate, for a coordinator that asks "
                   "for one."},
          &credentials.tls_cert_file);
  set.Add({.name = "tls_key_file",
           .unit = "FILE",
           .help = "The certificate's private key."},
          &credentials.tls_key_file);
  set.Add({.name = "insecure",
           .help = "Allow clear text to a coordinator on another machine."},
          &credentials.insecure);
}

void AddLogFlags(FlagSet& set, WorkerFlags& flags) {
  set.StartGroup("Log");
  set.Add({.name = "log_level",
           .help = "Least level that is logged.",
           .choices = {"debug", "info", "warning", "error"}},
          &flags.log_level);
  set.Add({.name = "log_format",
           .help = "Form of the lines on stderr and in --log_file.",
           .choices = {"text", "json"}},
          &flags.log_format);
  set.Add({.name = "log_file",
           .unit = "FILE",
           .help = "Append the log to this file too."},
          &flags.log_file);
  set.StartGroup("For programs that start this one");
  set.Add({.name = "die_with_parent",
           .help = "End, as after SIGTERM, when the parent process ends."},
          &flags.die_with_parent);
}

}  // namespace

void AddWorkerFlags(FlagSet& set, WorkerFlags& flags) {
  AddPlaceFlags(set, flags);
  AddRestartFlags(set, flags);
  AddCredentialsFlags(set, flags.credentials);
  AddLogFlags(set, flags);
}

absl::Status SettleWorkerFlags(WorkerFlags& flags) {
  if (flags.device == "cuda") {
    return absl::InvalidArgumentError(
        "--device=cuda: this build trains on CPUs only so far. Use "
        "--device=cpu.");
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
  if (flags.data_listen.empty()) {
    const bool is_local = IsLoopback(coordinator->host);
    const std::string host = coordinator->host == "::1" ? "::1" : "127.0.0.1";
    flags.data_listen = HostPort{is_local ? host : "::", 0}.ToString();
    // `localhost` may have reached the coordinator by the other loopback.
    if (is_local && flags.advertise.empty()) flags.advertise = host;
  }
  const absl::StatusOr<HostPort> listen = ParseHostPort(flags.data_listen);
  if (!listen.ok()) return Annotate(listen.status(), "--data_listen");
  return absl::OkStatus();
}

bool NeedsSupervisor(const WorkerFlags& flags) {
  return flags.slots > 1 || flags.restart == "always";
}

}  // namespace ringmaster
