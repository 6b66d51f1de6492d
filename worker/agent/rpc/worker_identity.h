// WorkerIdentity is the identity of a worker process: the constant part of its
// hello.
#ifndef RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_
#define RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/plan/collective_costs.h"
#include "common/protocol/labels.h"

namespace ringmaster {

// The end of a process, as its supervisor saw it.
struct ProcessEnd {
  int64_t pid = 0;
  int exit_code = 0;  // unless a signal ended it
  int signal = 0;     // 0: none

  friend bool operator==(const ProcessEnd&, const ProcessEnd&) = default;
};

// The environment variable in which a supervisor says how the process before
// this one in its slot ended.
inline constexpr char kPredecessorVariable[] = "RINGMASTER_PREDECESSOR";

// Reads its value: "PID:EXIT_CODE:SIGNAL", as in "4711:0:9".
//   INVALID_ARGUMENT  `text` is not of that form; quotes it
[[nodiscard]] absl::StatusOr<ProcessEnd> ParsePredecessor(
    std::string_view text);

// A process's role in a job.
enum class WorkerRole {
  kWorker,           // trains
  kParameterServer,  // holds shards of the parameters
};

struct WorkerIdentity {
  std::string name;          // unique among live workers
  uint64_t incarnation = 0;  // random number of this process life
  // Random bytes of this process life that only the coordinator hears.
  std::string resume_key = {};
  std::string host;
  std::string host_key;  // equal on workers that share memory
  // The machine's name, if the host is one of its containers; "": it is not.
  std::string node = {};
  int64_t pid = 0;
  bool is_on_gpu = false;
  int device_index = 0;
  std::string advertise_host;  // "": the one that the coordinator sees
  int data_port = 0;
  std::string version;
  std::string log_file = {};  // with its whole path; "": none
  // The end of the process that had its slot before, if its supervisor knows.
  std::optional<ProcessEnd> predecessor = std::nullopt;
  // The costs of collectives here; none: not measured.
  std::optional<MachineCosts> costs = std::nullopt;
  WorkerRole role = WorkerRole::kWorker;
  // It takes part only in generations whose frames are encrypted.
  bool requires_encryption = false;
  bool runs_commands = false;  // of jobs with the program `external`
  Labels labels = {};          // beside those that every worker has
  int64_t memory_bytes = 0;    // that it may use; 0: not known
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_
