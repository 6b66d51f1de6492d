// The plain values that the coordinator's core speaks in: workers' identities,
// verdicts, figures.
//
// They mirror the messages of proto/ringmaster/v1 without depending on them, so
// that the core builds and tests without protobuf. Every enumerator has the
// number of its counterpart there: the adapter converts with a static_cast.
// Wall-clock times (absl::Time) are for display only; nothing is decided by
// them.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

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

enum class EvidenceKind {
  kStreamBroken = 1,
  kLeaseExpired = 2,
  kNoProgress = 3,
  kPeerReport = 4,
  kSelfReport = 5,
  kHaltUnanswered = 6,
  kMismatch = 7,
  kLeft = 8,
  kSuperseded = 9,
  kJoined = 10,
  kSupervisorReport = 11,
};

enum class VerdictDecision { kReform = 1, kFailJob = 2 };

enum class NoticeKind {
  kSample = 1,
  kCheckpointWritten = 2,
  kCheckpointFailed = 3,
  kCheckpointLoaded = 4,
  kFiguresFailed = 5,
  kSamplesSkipped = 6,
};

enum class EventSeverity { kInfo = 1, kWarning = 2, kError = 3 };

// Who holds a job's parameters, where they are not all-reduced; see
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

// One observation of an incident.
struct Evidence {
  EvidenceKind kind = EvidenceKind::kStreamBroken;
  // "coordinator" or a worker's name.
  std::string observer;
  std::string detail;

  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// How a process ended, as its supervisor saw it.
struct ProcessEnd {
  int64_t pid = 0;
  int exit_code = 0;
  int signal = 0;  // 0: none

  friend bool operator==(const ProcessEnd&, const ProcessEnd&) = default;
};

// One incident: who, where, when, on what evidence, what was decided.
struct Verdict {
  // Empty, with rank -1, if nobody could be blamed.
  std::string worker;
  int rank = -1;
  std::string host;
  int64_t pid = 0;
  // The generation in which it happened.
  int64_t generation = 0;
  // The last step that the culprit had reported as applied.
  int64_t step = 0;
  int64_t collective_sequence = 0;
  std::string summary;
  std::vector<Evidence> evidence;
  VerdictDecision decision = VerdictDecision::kReform;
  absl::Time time;
  int exit_code = 0;
  std::optional<ProcessEnd> process_end;

  friend bool operator==(const Verdict&, const Verdict&) = default;
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

  // Of those that are known.
  [[nodiscard]] absl::Duration Total() const;
};

// What an interruption waits for; the parts of its cost follow one another.
enum class IncidentPart { kHalt, kAssign, kConnect, kFirstStep };

// One interruption of a job, from its verdict to the next committed step.
struct Incident {
  int number = 0;
  Verdict verdict;
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
  // How much of all that was before the job's first step.
  absl::Duration before_first_step;

  [[nodiscard]] absl::Duration Total() const;
  // `training` as a part of the time since the first step, 0 to 1; 0 before it.
  [[nodiscard]] double Ratio() const;
};

// Where the time of a step goes.
struct PhaseDurations {
  absl::Duration data_wait;
  absl::Duration forward;
  absl::Duration backward;
  absl::Duration communication_wait;
  absl::Duration optimizer;
  absl::Duration snapshot;

  friend bool operator==(const PhaseDurations&,
                         const PhaseDurations&) = default;
};

// Which messages ranks exchange to reduce a buffer.
enum class CollectiveAlgorithm {
  kRing = 1,
  kHalvingDoubling = 2,
  kDirect = 3,
  kExchange = 4,
  kGatherBroadcast = 5,
  kHierarchical = 6,
};
inline constexpr CollectiveAlgorithm kLastCollectiveAlgorithm =
    CollectiveAlgorithm::kHierarchical;

// Text that a job's model wrote.
struct TextSample {
  int64_t step = 0;
  std::string prompt;
  std::string text;

  friend bool operator==(const TextSample&, const TextSample&) = default;
};

// How training is doing, as one rank reported it.
struct TrainingFigures {
  int64_t step = 0;
  int64_t total_steps = 0;
  double loss = 0;
  double samples_per_second = 0;
  absl::Duration step_duration;
  double communication_wait_ratio = 0;
  double data_wait_ratio = 0;
  std::optional<double> evaluation_loss;
  int64_t evaluation_step = 0;
  absl::Duration remaining_duration;
  int64_t payload_sent_bytes = 0;
  double gradient_norm = 0;
  double targets_per_second = 0;
  double model_flops_utilization = 0;
  double learning_rate = 0;
  PhaseDurations phases;
  int64_t payload_theory_bytes = 0;
  std::optional<double> evaluation_accuracy;
  int64_t checkpoint_step = 0;
  int64_t skipped_samples = 0;
  // Of a step's all-reduces.
  absl::Duration all_reduce_duration;
  absl::Duration predicted_all_reduce_duration;
  std::vector<CollectiveAlgorithm> all_reduce_algorithms;
  // Whom the rank waited for most, -1 for nobody, and how much of its time.
  int awaited_rank = -1;
  double awaited_ratio = 0;

  friend bool operator==(const TrainingFigures&,
                         const TrainingFigures&) = default;
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

// "RUNNING", "LEASE_EXPIRED", ...: the proto's names without their prefix.
[[nodiscard]] std::string_view NameOf(JobState state);
[[nodiscard]] std::string_view NameOf(WorkerState state);
[[nodiscard]] std::string_view NameOf(EvidenceKind kind);
[[nodiscard]] std::string_view NameOf(VerdictDecision decision);
[[nodiscard]] std::string_view NameOf(EventSeverity severity);
[[nodiscard]] std::string_view NameOf(Phase phase);

// "worker", "parameter server": for sentences.
[[nodiscard]] std::string_view NameOf(Role role);

// True for SUCCEEDED, FAILED and CANCELLED.
[[nodiscard]] bool IsEnded(JobState state);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TYPES_H_
