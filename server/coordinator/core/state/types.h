// The plain values that the coordinator's core works with: workers' identities,
// verdicts, figures.
//
// A value that crosses a process and is the same on both sides travels through
// the core as its message (verdict.proto, figures.proto, notice.proto), and
// enumerations are the protocol's. Wall-clock times (absl::Time) are for display
// only; nothing is decided by them.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TYPES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/protocol/labels.h"
#include "ringmaster/v1/figures.pb.h"
#include "ringmaster/v1/job_state.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "ringmaster/v1/worker.pb.h"

namespace ringmaster::coordinator {

// One stream of a worker. Chosen by the adapter, unique in this coordinator's
// life; 0 means none.
using SessionId = uint64_t;
// One call of a user that waits for an answer. Chosen by the adapter.
using RequestToken = uint64_t;
// One record on its way to the journal. Chosen by the core.
using PersistToken = uint64_t;

struct Device {
  v1::DeviceKind kind = v1::DEVICE_KIND_UNSPECIFIED;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

// The holders of a job's parameters, if those are not all-reduced; see
// ringmaster.v1.ParameterServerSpec.
struct Sharding {
  // Parameter servers that hold shards; 0 if the workers hold them.
  int servers = 0;
  // 0: the job has none.
  int shards = 0;
  // Lanes of each holder: threads that serve its shards (LaneOfShard); at least
  // 1.
  int lanes = 1;
  // Additional copies of each shard, 0 or 1.
  int replicas = 0;
  // Each step is one update with every worker's gradient, so committed steps
  // are common to all. Otherwise each worker has a clock of its own, and a
  // server never undoes the update of a push.
  bool is_lockstep = true;

  // The workers hold the shards.
  [[nodiscard]] bool IsColocated() const { return shards > 0 && servers == 0; }

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// Who calls, as far as the credentials tell.
struct Caller {
  // In its certificate, or of its token; empty: the coordinator asks nobody.
  std::string name;
  // Those that it has there: "submitter,viewer".
  std::string roles;
  // The host that its connection comes from; "unix" on a Unix socket.
  std::string address;
  // It may change other callers' jobs, too.
  bool owns_all = true;

  friend bool operator==(const Caller&, const Caller&) = default;
};

// The queue of jobs that name none.
inline constexpr std::string_view kDefaultQueue = "default";

// The needs of a job: each worker that it takes has these, and the host of that.
struct WorkerNeeds {
  Labels labels = {};
  // No two of its workers are on one host.
  bool one_per_host = false;
  // 0: it does not say.
  int64_t memory_bytes = 0;

  friend auto operator<=>(const WorkerNeeds&, const WorkerNeeds&) = default;
};

// The part of a job's spec that the core decides by. Its submission, its record
// and the job itself have the same, as does a worker that tells of it.
struct JobTerms {
  std::string name;
  // The serialized JobSpec with defaults filled in; opaque here.
  std::string spec;
  int min_workers = 1;
  int max_workers = 1;
  // The most that `max_workers` could ever be; 0: both stay what they are.
  int scale_limit = 0;
  // The wait for more workers than `min_workers`.
  absl::Duration settle;
  int64_t total_steps = 0;
  WorkerNeeds needs = {};
  // Its last step is to be in a checkpoint before it is done.
  bool keeps_checkpoints = false;
  // It can do without the members that it has: others go on from the newest of its
  // checkpoints, or begin its commands anew.
  bool can_go_on_later = false;
  // A checkpoint that cannot be written ends it.
  bool fails_on_write_error = false;
  // It may be done before its last step: its members decide that by evaluations.
  bool can_end_early = false;
  // It measures its workers, so none of them can be replaced.
  bool is_benchmark = false;
  // It runs commands: one step, which is done when all of them are.
  bool runs_commands = false;
  Sharding sharding = {};
  // Those with a higher one come first; see gifts.h.
  int priority = 0;
  // The share of the pool that it has; see placement/quotas.h.
  std::string queue = std::string(kDefaultQueue);
  // The name of the caller who submitted it; empty: nobody was asked.
  std::string owner = {};
};

// A change of a job, as somebody wants it; what is absent stays as it is.
struct JobChange {
  std::optional<int> priority = std::nullopt;
  // It is to be suspended, or resumed; see suspension.h.
  std::optional<bool> is_suspended = std::nullopt;
  std::optional<int> min_workers = std::nullopt;
  std::optional<int> max_workers = std::nullopt;
  std::optional<std::string> queue = std::nullopt;

  friend bool operator==(const JobChange&, const JobChange&) = default;
};

// The event that an interruption waits for; the parts of its cost follow one
// another.
enum class IncidentPart { kHalt, kAssign, kConnect, kFirstStep };

// How a job spent its time; see ringmaster.v1.Goodput.
struct Goodput {
  absl::Duration waiting;
  absl::Duration starting;
  absl::Duration training;
  absl::Duration detecting;
  absl::Duration recovering;
  absl::Duration repeating;
  absl::Duration stopping;
  // The part of all of these that lies before the job's first step.
  absl::Duration before_first_step;

  [[nodiscard]] absl::Duration Total() const;
  // `training` as a share of the time since the first step, 0 to 1; 0 before
  // it.
  [[nodiscard]] double Ratio() const;
};

// A worker's place in a generation, as the journal keeps it and peers see it.
struct MemberIdentity {
  int rank = 0;
  int local_rank = 0;
  std::string worker;
  uint64_t incarnation = 0;
  std::string host;
  // Equal on workers of one host: a machine, a network namespace, or a node of
  // Kubernetes. A host is lost, left out or drained as a whole.
  std::string host_key;
  int64_t pid = 0;
  // HOST:PORT, or [HOST]:PORT for IPv6.
  std::string data_address;
  Device device;
  v1::Role role = v1::ROLE_WORKER;
  // SHA-256 of the resume key that its hello gave; empty: none. Peers do not
  // see it.
  std::string resume_key_hash = {};
  // Tells the containers of a host apart; empty where it is not divided.
  std::string container = {};

  friend bool operator==(const MemberIdentity&,
                         const MemberIdentity&) = default;
};

// The place of a worker or a member, with everybody that it can share memory with
// and reach over loopback: a host, or one container of it.
using ContainerKey = std::pair<std::string_view, std::string_view>;
template <typename T>
[[nodiscard]] ContainerKey ContainerOf(const T& one) {
  return {one.host_key, one.container};
}

// Who was a member of a generation.
struct MemberLife {
  int rank = 0;
  std::string worker;
  uint64_t incarnation = 0;
};

// "worker", "parameter server": for sentences.
[[nodiscard]] std::string_view NameOf(v1::Role role);

// True for SUCCEEDED, FAILED and CANCELLED.
[[nodiscard]] bool IsEnded(v1::JobState state);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TYPES_H_
