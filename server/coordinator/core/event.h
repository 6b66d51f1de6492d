// Event: everything that can happen to the coordinator's core.
//
// The adapter translates messages, user calls, the journal's answers and
// timers into these, checks their syntax (enums known, sizes bounded), and
// feeds them to CoordinatorCore::Step one by one, in the order of arrival.
// The core checks their meaning. Any event of a session renews its lease.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_EVENT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_EVENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/collective_costs.h"
#include "server/coordinator/core/types.h"

namespace ringmaster::coordinator {

// What a worker knows of its job, for a coordinator that has lost its state.
struct HeldJob {
  std::string job_id;
  // The serialized JobSpec, checked, and what the core reads of it.
  std::string spec;
  std::string name;
  int min_workers = 1;
  int max_workers = 1;
  absl::Duration settle;
  int64_t total_steps = 0;
  Sharding sharding;
  // Of the generation that the hello names: own rank, workers, and parameter
  // servers, whose ranks follow.
  int rank = 0;
  int world_size = 1;
  int servers = 0;
  int64_t resume_step = 0;
  // Of the parameters, by shard; empty: the job has no shards, or it is not
  // known.
  std::vector<ShardPlacement> placements = {};
};

// The members of its generation, and what the one with `rank` is.
[[nodiscard]] inline int MemberCount(const HeldJob& held) {
  return held.world_size + held.servers;
}
[[nodiscard]] inline Role RoleOf(const HeldJob& held, int rank) {
  return rank < held.world_size ? Role::kWorker : Role::kParameterServer;
}

// ---- From workers. Of a session that the core does not know (any more),
// everything but a hello is ignored: it may have been closed while the message
// was on its way. A stream whose first message is not hello is the adapter's
// to refuse.

// A worker's first message.
struct HelloReceived {
  SessionId session = 0;
  std::string name;
  uint64_t incarnation = 0;
  Role role = Role::kWorker;
  int protocol_min = 1;
  int protocol_max = 1;
  std::string host;
  std::string host_key;
  int64_t pid = 0;
  Device device;
  // Made by the adapter from advertise_host (or the stream's address) and port.
  std::string data_address;
  std::string version;
  // The generation it is in, when it attaches again; 0 otherwise.
  int64_t generation = 0;
  int64_t applied_step = 0;
  // How the process before it in its slot ended.
  std::optional<ProcessEnd> predecessor;
  // The job that it works for, when it attaches again.
  std::optional<HeldJob> held_job;
  // What is wrong with the job that it told of, which was left out; empty if
  // nothing is.
  std::string held_job_fault;
  // What collectives cost on its machine; they passed CheckCosts.
  std::optional<MachineCosts> costs;
  // What is wrong with those that it told of, which were left out.
  std::string costs_fault;
};

struct BeatReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  Phase phase = Phase::kUnspecified;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  // Of checkpoints, read and written since the worker's process began.
  int64_t disk_bytes = 0;
  TrainingFigures figures;
  // Of a benchmark's rank 0: the serialized BenchFigures, checked; else empty.
  std::string bench = "";
  // The serialized RankFigures, for those who watch; empty if there are none.
  std::string rank_figures = "";
};

struct PreparedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  // Words like "parameters=12345"; those that differ between ranks are shown.
  std::string summary;
};

struct HaltedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  // The shards that it holds whole; each once.
  std::vector<HeldShard> shards = {};
};

struct SuspicionReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int peer_rank = -1;
  std::string detail;
  int64_t step = 0;
  int64_t collective_sequence = 0;
};

struct FinishedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  uint64_t parameters_hash = 0;
  bool is_stopped = false;
  TrainingFigures figures;
  std::string bench = "";         // as in BeatReceived
  std::string rank_figures = "";  // likewise
};

struct FailedReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  int exit_code = 1;
  std::string message;
};

struct LeavingReceived {
  SessionId session = 0;
  std::string reason;
  bool is_done = false;
  int64_t step = 0;
};

// Something that users want to know.
struct NoticeReceived {
  SessionId session = 0;
  int64_t generation = 0;
  int64_t step = 0;
  NoticeKind kind = NoticeKind::kSample;
  std::string message;
  // kSample:
  TextSample sample;
};

// Any other message of a session (a trace): only proof of life.
struct HeardFrom {
  SessionId session = 0;
};

// The stream is over, whoever ended it. Not sent for a stream that the core
// refused or closed itself; if it comes all the same, it is ignored.
struct StreamClosed {
  SessionId session = 0;
  // Why, for the verdict: "connection reset by peer".
  std::string detail;
};

// ---- From users.

struct SubmitRequested {
  RequestToken request = 0;
  // Valid: checked by the adapter, as are the numbers below.
  std::string name;
  std::string spec;
  int min_workers = 1;
  int max_workers = 1;
  absl::Duration settle;
  int64_t total_steps = 0;
  Sharding sharding;
  // Empty: none.
  std::string request_id;
};

struct CancelRequested {
  RequestToken request = 0;
  // Id, or name (the newest of that name).
  std::string job;
  std::string reason;
};

// An operator wants a worker gone, politely.
struct DrainRequested {
  RequestToken request = 0;
  std::string worker;
  std::string reason;
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

// Nothing happened, but CoordinatorCore::NextDeadline() has come.
struct Tick {};

// SIGTERM: every session is closed with UNAVAILABLE/SHUTTING_DOWN; later
// events change nothing.
struct ShutdownStarted {};

using EventBody =
    std::variant<HelloReceived, BeatReceived, PreparedReceived, HaltedReceived,
                 SuspicionReceived, FinishedReceived, FailedReceived,
                 LeavingReceived, NoticeReceived, HeardFrom, StreamClosed,
                 SubmitRequested, CancelRequested, DrainRequested, Persisted,
                 PersistFailed, JournalWorks, Tick, ShutdownStarted>;

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

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_EVENT_H_
