// Event: everything that can happen to a worker's agent, as plain values.
//
// The adapters (session, trainer thread, signals, timer) make them and pass
// them to AgentCore one at a time.
#ifndef RINGMASTER_WORKER_AGENT_CORE_AGENT_EVENT_H_
#define RINGMASTER_WORKER_AGENT_CORE_AGENT_EVENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/status/exit_code.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "ringmaster/v1/log.pb.h"
#include "ringmaster/v1/notice.pb.h"
#include "ringmaster/v1/probe.pb.h"
#include "ringmaster/v1/verdict.pb.h"

namespace ringmaster::agent {

// The parts of an assignment that the trainer needs beside the fields below.
// Opaque to the core, which hands it back in PrepareTrainer.
struct AssignmentPayload;

// A rank's position in training.
struct StepPosition {
  int64_t applied_step = 0;   // last optimizer update made
  int64_t complete_step = 0;  // last step of which all reduced buckets are held
  friend bool operator==(const StepPosition&, const StepPosition&) = default;
};

// ---- From the session with the coordinator.

// The coordinator welcomed us.
struct SessionUp {
  uint64_t coordinator_incarnation = 0;
  int protocol = 0;
  absl::Duration beat_interval;
  absl::Duration lease;
  // A worker that holds a job's steps tries at least this long to come back.
  absl::Duration state_wait = absl::ZeroDuration();
  // The coordinator's address, as gRPC writes it ("ipv4:10.0.0.5:29400"): its
  // name may lead to several.
  std::string peer = {};
};

// The session ended or could not be opened. `jitter` in [0, 1) spreads the
// attempts of many workers.
struct SessionDown {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  std::string reason;  // common/status/reason.h; empty if none came
  std::string message;
  double jitter = 0;
  // As in SessionUp; empty if nobody was reached.
  std::string peer = {};
};

struct AssignmentReceived {
  int64_t generation = 0;
  std::string job_id;
  int rank = 0;
  int world_size = 1;
  int64_t resume_step = 0;
  std::shared_ptr<const AssignmentPayload> payload;
  // The worker is to prepare, and is no member yet.
  bool is_rehearsal = false;
  // The incarnation of the coordinator that formed the generation; 0: a release
  // that does not tell.
  uint64_t formed_by = 0;
};

struct StartReceived {
  int64_t generation = 0;
};

struct HaltReceived {
  int64_t generation = 0;
  std::string summary;  // the verdict in a sentence
};

struct StopReceived {
  int64_t generation = 0;
  std::string reason;
};

// Pause between two steps: workers join, or leave.
struct PauseReceived {
  int64_t generation = 0;
  std::string reason;
  bool leaves = false;  // this one does: it takes no part in what follows
  int leavers = 0;      // so many were told so
};

// For the log, as the worker leaves: why it has to wait, or what that costs.
struct LeaveAdviceReceived {
  std::string text;
};

struct ReleaseReceived {
  int64_t generation = 0;
  std::string message;
  // The exit code that the job ended with: kDone also if it was cancelled. Not
  // set if the job continues without this worker, or if it is not known.
  std::optional<ExitCode> job_end = std::nullopt;
};

struct TraceRequested {
  int64_t request_id = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  // Not 0: only the collectives of this generation, at most so many bytes.
  int64_t generation = 0;
  int64_t max_bytes = 0;
};

// Wanted are lines of this process's log, which only the adapter knows.
struct LogRequested {
  int64_t request_id = 0;
  v1::LogFilter filter;
  int64_t after_sequence = 0;
  int64_t max_bytes = 0;
};

// To find out which peers can be reached, since a link between two failed.
struct ProbeRequested {
  v1::Probe probe = {};
};

// ---- From the trainer.

struct TrainerPrepared {
  int64_t generation = 0;
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  std::string summary;
  StepPosition position;
  // The shards of a job's parameters that the trainer holds, as of the resume
  // step.
  std::vector<HeldShard> shards = {};
  bool can_go_on = false;  // TrainProgress::can_go_on
  v1::DataIdentity data = {};
};

struct TrainerPrepareFailed {
  int64_t generation = 0;
  absl::Status status;
  StepPosition position;
  std::vector<HeldShard> shards = {};
  bool can_go_on = false;  // TrainProgress::can_go_on
};

// The end of a run; see RunOutcome in worker/member/job_runner.h.
enum class RunEnd {
  kFinished,
  kStopped,
  kDrained,
  kInterrupted,
  kPeerFailed,
  kFailed,
};

struct TrainerEnded {
  int64_t generation = 0;
  RunEnd end = RunEnd::kFailed;
  absl::Status status;        // kPeerFailed and kFailed
  int peer_rank = -1;         // kPeerFailed; -1: the trainer cannot tell
  bool is_unreached = false;  // kPeerFailed: no connection with it was made
  // kPeerFailed: how the link with it failed.
  v1::LinkFailure failure = v1::LINK_FAILURE_UNSPECIFIED;
  StepPosition position;
  uint64_t parameters_hash = 0;  // kFinished and kStopped
  std::vector<HeldShard> shards = {};
  bool can_go_on = false;  // TrainProgress::can_go_on
  // kPeerFailed: the peer held another state, and both have given theirs up.
  bool holds_other_state = false;
  int64_t saved_step = 0;      // of the last checkpoint known here
  bool was_preparing = false;  // kFailed: it ended before it was prepared
};

// Something that users want to know.
struct TrainerNoticed {
  v1::Notice notice;
};

// Its phase has changed, or it has applied the first step of a generation: the
// coordinator measures by it.
struct TrainerAdvanced {
  int64_t generation = 0;
};

// ---- From the process.

// SIGTERM or SIGINT.
struct TerminateSignal {
  std::string name;  // "SIGTERM"
};

// AgentCore::NextDeadline has come; also the first event of all.
struct Tick {};

using Event =
    std::variant<SessionUp, SessionDown, AssignmentReceived, StartReceived,
                 HaltReceived, StopReceived, PauseReceived, LeaveAdviceReceived,
                 ReleaseReceived, TraceRequested, LogRequested, ProbeRequested,
                 TrainerPrepared, TrainerPrepareFailed, TrainerEnded,
                 TrainerNoticed, TrainerAdvanced, TerminateSignal, Tick>;

// The event's kind, as the scenarios write it: "session-up", "assign", ...
[[nodiscard]] std::string_view EventName(const Event& event);

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_CORE_AGENT_EVENT_H_
