// The command lines of `worker` and `parameter_server`.
#ifndef RINGMASTER_WORKER_WORKER_FLAGS_H_
#define RINGMASTER_WORKER_WORKER_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/config/flags.h"
#include "common/config/port_range.h"
#include "common/credentials/credentials.h"
#include "common/files/file_roots.h"
#include "common/program/program_flags.h"

namespace ringmaster {

struct WorkerFlags {
  std::string coordinator;
  std::string name;  // the host's name unless given
  std::string device = "cpu";
  bool share_gpu = false;  // for tests: all slots compute on the first GPU
  std::string attention = "auto";    // whose kernels, on a GPU
  std::string convolution = "auto";  // the same
  std::string cuda_graphs = "on";    // of training passes, on a GPU
  std::string tuning_cache;          // a directory; empty: none
  int slots = 1;
  int threads = 1;  // of each slot
  int jobs = 0;     // end after so many; 0: never
  std::string advertise;
  std::string node;
  std::string data_listen;
  std::string data_interface;
  std::string data_ports;
  std::string data_encryption = "off";
  std::string listen;  // of a parameter server, for small clients; empty: not
  std::string trust_domain;  // of its clients' certificates; empty: any
  // The range of data_ports, once settled: each slot listens on the first of
  // its ports that is free, at the host of data_listen.
  std::optional<PortRange> port_range;
  absl::Duration coordinator_timeout = absl::Seconds(60);
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration abort_timeout = absl::Seconds(30);
  FileRoots::Directories files;  // that jobs may read and write
  CredentialsOptions credentials;
  bool allow_commands = false;  // of jobs with the program `external`
  std::string labels;           // "gpu=h100,zone=a"
  std::string restart = "auto";
  int max_crashes = 5;
  MonitoringFlags monitoring;  // of slot 0; each further one on the next port
  ProgramFlags program;
};

// Adds the flags to `set`, with the values in `flags` as their defaults.
void AddWorkerFlags(FlagSet& set, WorkerFlags& flags);
// Adds those flags that a parameter server has as well: it computes with one
// thread, on the CPU.
void AddParameterServerFlags(FlagSet& set, WorkerFlags& flags);

// Checks what the flags' types do not, and fills in values that follow from
// others: beside a coordinator on loopback, the data plane stays on loopback as
// well, unless flags say otherwise, and an interface becomes its address, to
// listen on and to advertise.
//   INVALID_ARGUMENT     names the flag
//   NOT_FOUND            there is no such --data_interface; lists those there are
//   FAILED_PRECONDITION  it has no address for others
//   UNAVAILABLE          the system does not tell its interfaces
[[nodiscard]] absl::Status SettleWorkerFlags(WorkerFlags& flags);

// Returns true if a supervisor process runs each slot as a child of its own:
// with several slots, and whenever a process that ends must be started again.
[[nodiscard]] bool NeedsSupervisor(const WorkerFlags& flags);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_WORKER_FLAGS_H_
