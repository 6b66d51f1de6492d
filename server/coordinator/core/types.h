// The plain values that the coordinator's core speaks in: workers' identities,
// verdicts, figures.
//
// A value that crosses a process and is the same on both sides travels through
// the core as its message (verdict.proto, figures.proto). The coordinator's own
// values mirror the messages that show them: every enumerator has the number of
// its counterpart, so that the adapter converts with a static_cast. Wall-clock
// times (absl::Time) are for display only; nothing is decided by them.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/figures.pb.h"
#include "ringmaster/v1/verdict.pb.h"

namespace ringmaster::coordinator {

// One stream of a worker. Chosen by the adapter, unique in this coordinator's
// life; 0 means none.
using SessionId = uint64_t;
// One call of a user that waits for an answer. Chosen by the adapter.
using RequestToken = uint64_t;
// One record on its way to the journal. Chosen by the core.
using PersistToken = uint64_t;

enum class Role { kWorker = 1, kParameterServer = 2 };

enum class DeviceKind { kUnspecified = 0, kCpu = 1, kCuda = 2 };

struct Device {
  DeviceKind kind = DeviceKind::kUnspecified;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

enum class WorkerState {
  kIdle = 1,
  kAssigned = 2,
  kDraining = 3,
  kDetached = 4
};

enum class Phase {
  kUnspecified = 0,
  kIdle = 1,
  kPrepare = 2,
  kConnect = 3,
  kStep = 4,
  kEvaluate = 5,
  kHalted = 6,
  kTransfer = 7,
  kCheckpoint = 8,
};
inline constexpr Phase kLastPhase = Phase::kCheckpoint;

enum class JobState {
  kQueued = 1,
  kGathering = 2,
  kPreparing = 3,
  kRunning = 4,
  kHalting = 5,
  kStopping = 6,
  kSucceeded = 7,
  kFailed = 8,
  kCancelled = 9,
};

enum class NoticeKind {
  kSample = 1,
  kCheckpointWritten = 2,
  kCheckpointFailed = 3,
  kCheckpointLoaded = 4,
  kFiguresFailed = 5,
  kSamplesSkipped = 6,
};

enum class EventSeverity { kInfo = 1, kWarning = 2, kError = 3 };

// The holders of a job's parameters, if those are not all-reduced; see
// ringmaster.v1.ParameterServerSpec.
struct Sharding {
  // Members of their own that hold shards; 0 where the workers hold them.
  int servers = 0;
  // 0: the job has none.
  int shards = 0;
  // Threads that serve them on each holder (LaneOfShard); at least 1.
  int lanes = 1;
  // Further copies of each shard, 0 or 1.
  int replicas = 0;
  // Each step is one update with every worker's gradient, so what is committed
  // is the same for all. If not, each worker has a clock of its own, and what a
  // server has made of a push is never taken back.
  bool is_lockstep = true;

  // The workers hold the shards.
  [[nodiscard]] bool IsColocated() const { return shards > 0 && servers == 0; }

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// Where the time between a culprit's last sign of life and the first step
// committed without it went; what is not known yet is empty. See
// ringmaster.v1.RecoveryCost.
struct RecoveryCost {
  std::optional<absl::Duration> detect;
  std::optional<absl::Duration> halt;
  std::optional<absl::Duration> assign;
  std::optional<absl::Duration> connect;
  std::optional<absl::Duration> first_step;

  // The sum of the parts that are known.
  [[nodiscard]] absl::Duration Total() const;
};

// The event that an interruption waits for; the parts of its cost follow one
// another.
enum class IncidentPart { kHalt, kAssign, kConnect, kFirstStep };

// One interruption of a job, from its verdict to the next committed step.
struct Incident {
  int number = 0;
  v1::Verdict verdict;
  // Nothing went wrong: workers joined, or left politely.
  bool is_wanted = false;
  RecoveryCost cost;
  IncidentPart part = IncidentPart::kHalt;
  // The highest committed step that was known when it began.
  int64_t best_step = 0;
  int world_size_before = 0;
  int world_size_after = 0;
  int64_t next_generation = 0;
  int64_t resume_step = 0;
  int64_t lost_steps = 0;
  bool is_over = false;
};

// Where the time of a job went; see ringmaster.v1.Goodput.
struct Goodput {
  absl::Duration waiting;
  absl::Duration starting;
  absl::Duration training;
  absl::Duration detecting;
  absl::Duration recovering;
  absl::Duration repeating;
  absl::Duration stopping;
  // The part of all that before the job's first step.
  absl::Duration before_first_step;

  [[nodiscard]] absl::Duration Total() const;
  // `training` as a part of the time since the first step, 0 to 1; 0 before it.
  [[nodiscard]] double Ratio() const;
};

// A worker's place in a generation: what the journal keeps, and what peers
// learn of it.
struct MemberIdentity {
  int rank = 0;
  int local_rank = 0;
  std::string worker;
  uint64_t incarnation = 0;
  std::string host;
  // Equal on workers that share a machine (or network namespace).
  std::string host_key;
  int64_t pid = 0;
  // HOST:PORT, or [HOST]:PORT for IPv6.
  std::string data_address;
  Device device;
  Role role = Role::kWorker;

  friend bool operator==(const MemberIdentity&,
                         const MemberIdentity&) = default;
};

// "RUNNING", "ASSIGNED", ...: the proto's names without their prefix.
[[nodiscard]] std::string_view NameOf(JobState state);
[[nodiscard]] std::string_view NameOf(WorkerState state);
[[nodiscard]] std::string_view NameOf(EventSeverity severity);
[[nodiscard]] std::string_view NameOf(Phase phase);

// "worker", "parameter server": for sentences.
[[nodiscard]] std::string_view NameOf(Role role);

// True for SUCCEEDED, FAILED and CANCELLED.
[[nodiscard]] bool IsEnded(JobState state);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_
