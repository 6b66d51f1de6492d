// Event: everything that can happen to the coordinator's core.
//
// The adapter translates messages, user calls, the journal's answers and
// timers into these, checks their syntax (enums known, sizes bounded), and
// feeds them to CoordinatorCore::Step one by one, in the order of arrival.
// The core checks their meaning. Any event of a session renews its lease.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_EVENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_EVENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/collective_costs.h"
#include "common/protocol/labels.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "ringmaster/v1/notice.pb.h"
#include "ringmaster/v1/probe.pb.h"
#include "ringmaster/v1/queue.pb.h"
#include "ringmaster/v1/trace.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// A job as one of its workers knows it, for a coordinator that has lost its
// state.
struct HeldJob : JobTerms {
  std::string job_id;
  // The worker's rank in the generation that the hello names, its number of
  // workers, and that of parameter servers, whose ranks follow.
  int rank = 0;
  int world_size = 1;
  int servers = 0;
  int64_t resume_step = 0;
  // The holders of each shard of the parameters; empty if the job has no
  // shards, or nobody knows them.
  std::vector<ShardPlacement> placements = {};
};

// MemberCount is the number of members of its generation, RoleOf the role of
// the one with `rank`.
[[nodiscard]] inline int MemberCount(const HeldJob& held) {
  return held.world_size + held.servers;
}
[[nodiscard]] inline v1::Role RoleOf(const HeldJob& held, int rank) {
  return rank < held.world_size ? v1::ROLE_WORKER : v1::ROLE_PARAMETER_SERVER;
}

// ---- From workers. Events of a session that the core does not know (any more)
// are ignored, except a hello: the session may have been closed while the
// message was on its way. The adapter refuses a stream whose first message is
// not hello.

// A worker's first message.
struct HelloReceived {
  SessionId session = 0;
  std::string name;
  uint64_t incarnation = 0;
  v1::Role role = v1::ROLE_WORKER;
  int protocol_min = 1;
  int protocol_max = 1;
  // As MemberIdentity has them.
  std::string host;
  std::string host_key;
  std::string container = {};
  int64_t pid = 0;
  Device device;
  // Made by the adapter from advertise_host (or the stream's address) and port.
  std::string data_address;
  std::string version;
  // The generation it is in, when it attaches again; 0 otherwise.
  int64_t generation = 0;
  // The incarnation of the coordinator that formed it; 0: the worker, or that
  // coordinator, is of a release that does not tell.
  uint64_t formed_by = 0;
  // Counts the hellos of its process; 0: its release does not.
  uint64_t attempt = 0;
  // SHA-256 of the key that every hello of its process gives; empty: none. Digests of
  // random keys may be compared in any time.
  std::string resume_key_hash = {};
  int64_t applied_step = 0;
  // The end of the process that had its slot before.
  std::optional<v1::ProcessEnd> predecessor;
  // The job that it works for, when it attaches again.
  std::optional<HeldJob> held_job;
  // The reason why the job that it named was ignored; empty if it was not.
  std::string held_job_fault;
  // The costs of collectives on its machine; they passed CheckCosts.
  std::optional<MachineCosts> costs;
  // The reason why the costs that it sent were ignored.
  std::string costs_fault;
  // It can prepare for a job before it is a member.
  bool can_rehearse = false;
  // It answers a probe.
  bool can_probe = false;
  // It answers a request for its log lines.
  bool sends_logs = false;
  // It answers a request for its collectives.
  bool records_collectives = false;
  // It runs the commands of jobs.
  bool runs_commands = false;
  // Those of its own; they passed CheckOwnLabels.
  Labels labels = {};
  int64_t memory_bytes = 0;
  // It takes part in encrypted generations only, or in others only.
  bool requires_encryption = false;
  std::string log_file;
  // Whose credentials its connection has.
  Caller caller = {};
};

struct BeatReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  v1::Phase phase = v1::PHASE_UNSPECIFIED;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  // Bytes of checkpoints read and written since the worker's process began.
  int64_t disk_bytes = 0;
  v1::TrainingFigures figures;
  // A benchmark's figures, from its rank 0, checked.
  std::optional<v1::BenchFigures> bench = {};
  // Shown to watchers of the job; nothing is decided by them.
  std::shared_ptr<const v1::RankFigures> rank_figures = {};
  // When the worker's certificate ends, if that is soon. Shown, as the figures are.
  std::optional<absl::Time> certificate_end = {};
};

struct PreparedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  // Words like "parameters=12345"; those that differ between ranks are shown.
  std::string summary;
  // Its files; without parts if the worker did not tell.
  v1::DataIdentity data = {};
};

struct HaltedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  // The shards that it holds whole; each once.
  std::vector<HeldShard> shards = {};
  // Its command goes on with those of however many members are left.
  bool can_go_on = false;
};

struct SuspicionReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int peer_rank = -1;
  std::string detail;
  int64_t step = 0;
  int64_t collective_sequence = 0;
  // No connection with the peer was made; nullopt: the worker's release does
  // not report it.
  std::optional<bool> is_unreached = std::nullopt;
  // The peer holds another state than the worker did, and both have given theirs
  // up, since nobody can tell which is right. No link is at fault.
  bool holds_other_state = false;
  v1::LinkFailure failure = v1::LINK_FAILURE_UNSPECIFIED;
};

struct FinishedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  uint64_t parameters_hash = 0;
  bool is_stopped = false;
  v1::TrainingFigures figures;
  std::optional<v1::BenchFigures> bench = {};  // as in BeatReceived
  std::shared_ptr<const v1::RankFigures> rank_figures = {};  // likewise
};

struct FailedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  int exit_code = 1;
  std::string message;
  // Not of the worker: it ends the job.
  bool is_of_job = false;
  // It had not prepared its generation yet.
  bool was_preparing = false;
};

struct LeavingReceived {
  SessionId session = 0;
  std::string reason;
  bool is_done = false;
  int64_t step = 0;
  // It stays at most this long; zero: it has not said.
  absl::Duration patience = absl::ZeroDuration();
};

// Something that users want to know.
struct NoticeReceived {
  SessionId session = 0;
  v1::Notice notice;
};

// The most members that are asked to probe each other: more would tell no more
// about one link.
inline constexpr int kMostProbers = 8;

// The answer to SendProbe.
struct ProbedReceived {
  SessionId session = 0;
  v1::Probed probed = {};
};

// Any other message of a session (a trace, lines of a log): only proof of life.
struct HeardFrom {
  SessionId session = 0;
  // The collectives that it was asked for, if it is that: they must be possible.
  // The adapter hands them to whoever asked.
  std::shared_ptr<const v1::RankTrace> collectives = {};
};

// The stream is over, whoever ended it. Not sent for a stream that the core
// refused or closed itself; if it comes all the same, it is ignored.
struct StreamClosed {
  SessionId session = 0;
  // Why, for the verdict: "connection reset by peer".
  std::string detail;
  // The adapter refused a message, and `detail` names what is wrong in it.
  bool is_violation = false;
};

// ---- From users.

// The adapter has checked its terms.
struct SubmitRequested : JobTerms {
  RequestToken request = 0;
  // Empty: none.
  std::string request_id;
  Caller caller = {};
};

struct CancelRequested {
  RequestToken request = 0;
  // Id, or name (the newest of that name).
  std::string job;
  std::string reason;
  Caller caller = {};
};

// An operator wants workers to get no job, or lifts that; see cordon.h.
struct CordonRequested {
  RequestToken request = 0;
  // The name of a worker, or of a host.
  std::string target;
  bool is_lifted = false;
  // Jobs are to let them go, too.
  bool drains = false;
  std::string reason = {};
  Caller caller = {};
  // How long jobs may keep those that they cannot do without.
  absl::Duration within = absl::InfiniteDuration();
};

// A user changes a job. The adapter has checked the bounds of its priority.
struct ChangeRequested : JobChange {
  RequestToken request = 0;
  // Id, or name (the newest of that name).
  std::string job;
  std::string reason = {};
  Caller caller = {};
};

// An operator, or a file that is followed, says what the queues are to be.
struct QueuesRequested {
  RequestToken request = 0;
  // The adapter has checked it.
  v1::QueueFile file = {};
  Caller caller = {};
  // Of Config::queues_file; nobody waits for an answer.
  bool is_from_file = false;
};

// Somebody has changed something outside of the core: its entry for the audit.
struct ChangeMade {
  AuditedRecord entry;
};

// ---- From the coordinator's own process.

// The journal made the record of action Persist{token} durable.
struct Persisted {
  PersistToken token = 0;
};

// It did not; the record is rolled back.
struct PersistFailed {
  PersistToken token = 0;
  std::string why;
};

// The journal works again after a PersistFailed.
struct JournalWorks {};

// What action GatherFlight has brought: the ranks that others waited for.
struct FlightGathered {
  std::string job_id;
  int incident = 0;
  std::vector<v1::HoldUp> hold_ups = {};
};

// Nothing happened, but CoordinatorCore::NextDeadline() has come.
struct Tick {};

// SIGTERM: every session is closed with UNAVAILABLE/SHUTTING_DOWN; later
// events change nothing.
struct ShutdownStarted {};

using EventBody =
    std::variant<HelloReceived, BeatReceived, PreparedReceived, HaltedReceived,
                 SuspicionReceived, FinishedReceived, FailedReceived,
                 LeavingReceived, NoticeReceived, ProbedReceived, HeardFrom,
                 StreamClosed, SubmitRequested, CancelRequested,
                 ChangeRequested, CordonRequested, QueuesRequested, ChangeMade,
                 Persisted, PersistFailed, JournalWorks, FlightGathered, Tick,
                 ShutdownStarted>;

struct Event {
  // Implicit, so that Step(Persisted{token}, now) reads well in tests.
  template <typename Body>
  Event(Body what, absl::Time when = absl::UnixEpoch())  // NOLINT
      : body(std::move(what)), time(when) {}

  EventBody body;
  // Wall-clock time, for display.
  absl::Time time;
};

// "hello", "beat", ... of the alternative that `body` holds.
[[nodiscard]] std::string_view TypeOf(const EventBody& body);
// The same by the alternative's index, for tests that enumerate.
[[nodiscard]] std::string_view EventTypeName(size_t index);
// The session that the event came from; 0 for events of no session.
[[nodiscard]] SessionId SessionOf(const EventBody& body);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_EVENT_H_
