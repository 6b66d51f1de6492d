// Action: everything that a worker's agent can ask its adapters to do.
//
// Adapters carry actions out in order. A Send goes to the session that is up
// (the core asks for one only while there is one) and may be lost with it; the
// core repeats what matters when it is attached again.
#ifndef RINGMASTER_WORKER_AGENT_CORE_AGENT_ACTION_H_
#define RINGMASTER_WORKER_AGENT_CORE_AGENT_ACTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/status/exit_code.h"
#include "worker/agent/core/agent_event.h"

namespace ringmaster::agent {

// ---- The session.

// Opens a session with a hello that names `generation` (0: none), who formed it
// and, by its assignment's payload, the job. Answered by SessionUp or
// SessionDown.
struct OpenSession {
  int64_t generation = 0;
  std::shared_ptr<const AssignmentPayload> payload;
  uint64_t formed_by = 0;
  // As in SessionUp: the address to try; empty: wherever the coordinator's name
  // leads to.
  std::string peer = {};
  // Counts the sessions that were opened, this one included.
  uint64_t attempt = 0;
};
// Gives the session up. Answered by SessionDown.
struct CloseSession {};

// The adapter adds the trainer's progress.
struct SendBeat {
  int64_t generation = 0;
};
struct SendPrepared {
  int64_t generation = 0;
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  std::string summary;
  v1::DataIdentity data = {};
};
struct SendHalted {
  int64_t generation = 0;
  StepPosition position;
  // The shards of the job's parameters that the worker holds.
  std::vector<HeldShard> shards = {};
  // TrainProgress::can_go_on.
  bool can_go_on = false;
};
struct SendSuspicion {
  int64_t generation = 0;
  int peer_rank = -1;
  std::string detail;
  int64_t step = 0;           // the step that was under way
  bool is_unreached = false;  // no connection with the peer was made
  // No connection is at fault; see TrainerEnded.
  bool holds_other_state = false;
  v1::LinkFailure failure = v1::LINK_FAILURE_UNSPECIFIED;
};
// The adapter adds the trainer's last figures.
struct SendFinished {
  int64_t generation = 0;
  int64_t step = 0;
  uint64_t parameters_hash = 0;
  bool is_stopped = false;
};
struct SendFailed {
  int64_t generation = 0;
  int64_t step = 0;
  ExitCode exit_code = ExitCode::kInternal;
  std::string message;
  bool is_of_job = false;
  bool was_preparing = false;
};
// Unless `is_done`, the adapter takes the step from the trainer's progress.
struct SendLeaving {
  std::string reason;
  bool is_done = false;
  int64_t step = 0;
  // It stays at most this long; zero once it is done.
  absl::Duration patience = absl::ZeroDuration();
};
struct SendNotice {
  v1::Notice notice;
};
// The adapter adds the spans.
struct SendTrace {
  TraceRequested request;
  int rank = -1;
};

// The adapter adds the lines.
struct SendLog {
  LogRequested request;
};

// The adapter connects to the peers, and sends its answer once it has one, unless
// the session is over by then.
struct SendProbed {
  v1::Probe probe = {};
};

// ---- The trainer.

// Answered by TrainerPrepared or TrainerPrepareFailed.
struct PrepareTrainer {
  int64_t generation = 0;
  std::shared_ptr<const AssignmentPayload> payload;
};
// Answered by TrainerEnded.
struct RunTrainer {
  int64_t generation = 0;
};
// Hastens the answer to PrepareTrainer or RunTrainer of `generation`.
struct AbortTrainer {
  int64_t generation = 0;
  std::string why;
};
struct RequestStop {};
struct RequestDrain {};
// As RequestDrain, for this worker leaves: if all do, they stop.
struct RequestLeave {};
// As RequestDrain, where some take no part in the next generation; see
// JobRunner::RequestPause.
struct RequestPause {
  bool is_let_go = false;
  int let_go_count = 0;
};
struct ReleaseTrainer {};

// ---- The process.

enum class Severity { kInfo, kWarning, kError };
struct Log {
  Severity severity = Severity::kInfo;
  std::string_view event;  // a literal: "session.joined"
  std::string message;
};

// The last action: ends the session after what was sent to it, then the
// process.
struct Exit {
  ExitCode code = ExitCode::kDone;
  std::string message;
  bool is_hurried = false;  // without waiting for anything
};

using Action =
    std::variant<OpenSession, CloseSession, SendBeat, SendPrepared, SendHalted,
                 SendSuspicion, SendFinished, SendFailed, SendLeaving,
                 SendNotice, SendTrace, SendLog, SendProbed, PrepareTrainer,
                 RunTrainer, AbortTrainer, RequestStop, RequestDrain,
                 RequestLeave, RequestPause, ReleaseTrainer, Log, Exit>;

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_CORE_AGENT_ACTION_H_
