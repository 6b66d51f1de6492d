// Action: everything that the coordinator's core can ask its adapter to do.
//
// The adapter performs them in order, after Step has returned and the state is
// consistent. Sending is fire-and-forget: a message for a session that is gone
// is dropped.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_ACTION_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_ACTION_H_

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
#include "common/plan/collective_costs.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/frame_integrity.pb.h"
#include "ringmaster/v1/probe.pb.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// ---- Messages to a worker.

// The adapter adds its own incarnation, the observed host, and beat_interval
// and lease from the Config.
struct SendWelcome {
  SessionId session = 0;
  int protocol = 1;
};

// Sent only after the generation's record is durable. The adapter adds the spec
// and the peers (of State::FindJob(job_id)), the hash of the member table, the
// timeouts from the Config, and the generation's secret. The secret is random,
// so the adapter makes it, the same for all members of a generation, for
// instance as a keyed hash of the generation under a key drawn once per
// process. It is neither journaled nor seen by the core.
struct SendAssignment {
  SessionId session = 0;
  int64_t generation = 0;
  std::string job_id;
  MemberIdentity self;
  int world_size = 1;        // workers
  int local_world_size = 1;  // members of its role on its host
  int64_t resume_step = 0;
  // The rank that newcomers copy the state from; -1: no member needs it.
  int state_source_rank = -1;
  bool is_newcomer = false;
  // The costs by which members choose algorithms, the same for all; without
  // them each uses its build's defaults.
  std::optional<MachineCosts> costs;
  // The same for all members.
  v1::FrameIntegrity integrity = v1::FRAME_INTEGRITY_UNSPECIFIED;
  // By shard; the same for all members. Null: the job has no shards.
  std::shared_ptr<const std::vector<ShardPlacement>> placements;
  // The worker is no member yet: it prepares as if it were. `generation` is a
  // number that no generation ever has, there are no peers and no secret, and
  // nothing of it is durable.
  bool is_rehearsal = false;
  // The members make no step: they copy the state to the newcomers or, if there
  // are none, write a checkpoint, and pause.
  bool makes_no_step = false;
  // With fewer workers commands go on, but are not started.
  int least_workers = 0;
  // This coordinator's incarnation.
  uint64_t formed_by = 0;
};

struct SendStart {
  SessionId session = 0;
  int64_t generation = 0;
};

struct SendHalt {
  SessionId session = 0;
  int64_t generation = 0;
  v1::Verdict verdict;
};

// For the log of a worker that leaves: why it has to wait, or what its leaving
// costs.
struct SendLeaveAdvice {
  SessionId session = 0;
  std::string text;
};

struct SendStop {
  SessionId session = 0;
  int64_t generation = 0;
  std::string reason;
};

// Asks for a pause between two steps, so that workers can join.
struct SendPause {
  SessionId session = 0;
  int64_t generation = 0;
  std::string reason;
  bool leaves = false;  // it takes no part in what follows
  int leavers = 0;      // so many members are told so
};

// Only to a worker that can probe; answered by ProbedReceived.
struct SendProbe {
  SessionId session = 0;
  v1::Probe probe = {};
};

struct SendRelease {
  SessionId session = 0;
  // The generation that the worker was in.
  int64_t generation = 0;
  // The job's final state; its present one if the worker leaves it earlier.
  v1::JobState state = v1::JOB_STATE_FAILED;
  std::string message;
  int exit_code = 0;  // of a job that failed; 0 if it is not known any more
};

// The adapter asks these, of the generation that `incident` ended, for their
// collectives, keeps what they answer, and says FlightGathered.
struct GatherFlight {
  std::string job_id;
  int incident = 0;
  int64_t generation = 0;
  std::vector<MemberLife> members;
};

// Ends the stream with `status` (which carries a reason, see
// common/status/reason.h) after what was sent before. The core has already
// forgotten the session.
struct CloseSession {
  SessionId session = 0;
  absl::Status status;
};

// ---- The rest.

// Answered by the event Persisted{token} or PersistFailed{token}.
struct Persist {
  PersistToken token = 0;
  JournalRecord record;
};

// The answer to a user's call.
struct ReplyToUser {
  RequestToken request = 0;
  // Not OK: the error, with its reason.
  absl::Status status;
  // The job that was submitted or cancelled, also with some errors; read it
  // from the state. Empty for CordonRequested.
  std::string job_id;
};

// Something for the event log, which numbers it. docs/operations.md lists the
// types.
struct EmitEvent {
  v1::Event event;
};

using Action =
    std::variant<SendWelcome, SendAssignment, SendStart, SendHalt,
                 SendLeaveAdvice, SendStop, SendPause, SendProbe, SendRelease,
                 GatherFlight, CloseSession, Persist, ReplyToUser, EmitEvent>;

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_ACTION_H_
