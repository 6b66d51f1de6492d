// A worker of the pool, as the coordinator knows it. Thread-safety: thread-compatible;
// values.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_WORKER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_WORKER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/plan/collective_costs.h"
#include "common/protocol/labels.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// The generation that a worker prepares for before it is a member (rehearsal.h).
struct Rehearsal {
  // In place of a generation, in what the worker is asked and says.
  int64_t number = 0;
  bool is_ready = false;
  // It has to be ready by then.
  MonotonicTime deadline;
  // The job that it is to join.
  std::string job_id = {};
};

// A worker of the pool: one with a session, or a member known from the journal
// that has not attached again (DETACHED). Workers that leave or are lost are
// removed.
struct Worker {
  std::string name;
  uint64_t incarnation = 0;
  // 0 while DETACHED.
  SessionId session = 0;
  // That of its last hello; 0: not known.
  uint64_t attempt = 0;
  // As MemberIdentity has it.
  std::string resume_key_hash = {};
  // Whose credentials its connection had, once it has one.
  Caller caller = {};
  v1::WorkerState state = v1::WORKER_STATE_IDLE;
  v1::Role role = v1::ROLE_WORKER;
  Device device;
  // As MemberIdentity has them.
  std::string host;
  std::string host_key;
  std::string container = {};
  int64_t pid = 0;
  std::string data_address;
  std::string version;
  int protocol = 0;
  absl::Time join_time;
  // Rises with every join.
  uint64_t join_order = 0;

  // Without a job: empty, -1 and 0.
  std::string job_id;
  int rank = -1;
  // The generation that the worker is in as far as it knows; while it has not
  // been assigned the job's newest one, an older one or 0.
  int64_t generation = 0;

  // As of its last beat. `step` is the last it applied.
  int64_t step = 0;
  v1::Phase phase = v1::PHASE_IDLE;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  // When its last beat came that said that it waits for nobody.
  MonotonicTime last_at_work = {};
  int64_t disk_bytes = 0;  // since its process began
  // When its certificate ends; nullopt: not soon, or it has none.
  std::optional<absl::Time> certificate_end = {};
  // It was given up by that job and is back without one, but keeps its steps as
  // of `generation`; empty: it keeps none. See absence.h.
  std::string keeps_steps_of = {};
  // Its stream ended after a silence in which its peers' steps prove that it
  // lived, so only its line to the coordinator is cut: DETACHED, and its lease
  // runs as before; see silence.h.
  bool is_cut_off = false;
  // The costs of collectives on its machine, if it has measured them.
  std::optional<MachineCosts> costs;
  bool can_rehearse = false;
  bool can_probe = false;
  bool sends_logs = false;
  bool records_collectives = false;
  bool runs_commands = false;
  // Its own and those that every worker has; see common/protocol/labels.h.
  Labels labels = {};
  int64_t memory_bytes = 0;  // that it may use; 0: a release that does not tell
  std::string log_file;      // on its host; empty: none
  // How long it stays at most, if it has said that it is to leave, and until when.
  std::optional<absl::Duration> patience = std::nullopt;
  MonotonicTime leaves_by = MonotonicTime::InfiniteFuture();
  // It is to leave, and was told that nobody could take over from it yet.
  bool is_told_to_wait = false;
  // Its job lets it go, as it is drained, or given to another job; see let_go.h.
  bool is_let_go = false;
  // It failed by its own fault, and stays in its job only until others have what it
  // alone holds; see own_failure.h.
  bool has_failed = false;
  // Its rehearsal of a job; only while the worker is IDLE or leaves.
  std::optional<Rehearsal> rehearsal = std::nullopt;
  // When any message of it came last, and when it joined.
  MonotonicTime last_heard;
  MonotonicTime joined_at;
};

// Returns true if it is to leave its job: by itself, or as it is let go.
[[nodiscard]] bool IsLeaving(const Worker& worker);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_WORKER_H_
