// State: everything that the coordinator knows, as the core keeps it and the
// status shows it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/job.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/core/state/worker.h"

namespace ringmaster::coordinator {

// A share of the pool; see placement/quotas.h.
struct Queue {
  v1::QueueSpec spec;
  // Worker-seconds that its jobs have used; see account/queue_use.h.
  double used = 0;
  // The place of the queue among all by what it has used for its weight. Kept by
  // SetStandings.
  int turn = 0;
};

// A host whose workers are left out for a while, because they caused most of
// the incidents, or because one of them failed by its own fault.
struct HostQuarantine {
  std::string host_key;
  std::string host;
  absl::Time end_time;
  // "3 of 4 incidents within 10m".
  std::string reason;
  // The same as end_time, on the coordinator's own clock.
  MonotonicTime until;
  // The job that leaves it out; empty: all do.
  std::string job_id = {};
  // The exit code of a worker that failed by its own fault; 0: none did.
  int exit_code = 0;
  // Nobody could prepare the job there, so the job takes none of its workers
  // even if it has too few.
  bool is_unfit = false;
};

// Workers that get no job; see cordon.h.
struct Cordon : CordonedRecord {
  // It drains, and it was said that none of them has a job any more.
  bool is_said_to_be_empty = false;
  // `due` has come.
  bool is_due = false;
};

// A member of a generation was lost for a reason that may be its host's fault.
struct HostFault {
  MonotonicTime time;
  int64_t generation = 0;
  std::string host_key;
  std::string job_id;
};

// A generation that the journal does not know, as reported by its members; see
// rebuild.h.
struct Rebuilding {
  int64_t generation = 0;
  uint64_t formed_by = 0;
  // As in the first report.
  HeldJob job;
  int64_t job_number = 0;
  MonotonicTime since;
  // The worker that reported each rank; it may be lost since.
  std::map<int, std::string> workers;
  // No report is awaited after `deadline`; `is_due`: it has passed.
  MonotonicTime deadline = MonotonicTime::InfiniteFuture();
  bool is_due = false;
  // Its job's record is on its way to the journal, or its own.
  bool is_creating = false;
  bool is_recording = false;
  // Messages that its members have sent meanwhile.
  std::deque<EventBody> kept_events = {};
};

// Generations, from the first to the last, that the coordinator of that
// incarnation formed; 0: it is not known.
struct FormedRange {
  int64_t first = 0;
  int64_t last = 0;
  uint64_t formed_by = 0;
};

// A worker is in a generation that another coordinator formed and the journal
// does not know; see formed.h.
struct OtherCoordinator {
  std::string worker;
  int64_t generation = 0;
  uint64_t formed_by = 0;
  // It is newer than any that the journal has.
  bool is_newer = false;
  // The journal has others of that coordinator.
  bool is_of_former = false;
  // The id of the job that the worker is in, if that is known here; else empty.
  std::string known_job_id = {};
  // A member of that job's newest generation here has attached, then or since. (Those
  // of other jobs say nothing: they are where they were, in any copy.)
  bool is_outweighed = false;
};

// Most members of the jobs that train are silent at the same time, so the
// coordinator may be what is cut off.
struct CommonSilence {
  MonotonicTime since;
  // When those that are still silent are given up.
  MonotonicTime until;
};

struct State {
  // The coordinator's: a random number of its process life; 0: it has none.
  uint64_t incarnation = 0;
  // Rises with each change of what status shows.
  uint64_t revision = 1;
  // The last generation given out; strictly rising across restarts.
  int64_t last_generation = 0;
  // The last one of the journal that it was read from: members may tell of later
  // ones that it does not know (rebuild.h).
  int64_t recovered_generation = 0;
  // Who formed the generations of the journal, in their order. Gaps are numbers
  // that were not used, or of jobs that are forgotten.
  std::vector<FormedRange> formed;
  // The last sign of another coordinator on a copy of the journal.
  std::optional<OtherCoordinator> other;
  // The last job's number.
  int64_t last_job_number = 0;
  // The numbers below that which no job has had in this coordinator's life, from
  // each first to its last: a job that was rebuilt has left them out.
  std::map<int64_t, int64_t> unused_numbers;
  // The error that keeps decisions from becoming durable; empty if there is
  // none.
  std::string journal_error;
  bool is_shutting_down = false;
  // It was read from a journal, perhaps an empty one: workers that knew the
  // previous coordinator may come back.
  bool is_recovered = false;
  // Before this, no job begins with fewer workers than it can have.
  MonotonicTime gather_not_before;
  // By name.
  std::map<std::string, Worker, std::less<>> workers;
  // In force, in the order of their beginning.
  std::vector<HostQuarantine> quarantines;
  // The latest, oldest first; one for each generation and host.
  std::deque<HostFault> host_faults;
  // In force, by target.
  std::map<std::string, Cordon, std::less<>> cordons;
  // By name, kDefaultQueue among them; empty if none are defined.
  std::map<std::string, Queue, std::less<>> queues;
  // What queues have used that long ago counts half as much.
  absl::Duration half_life = absl::Hours(24);
  // Up to when their use is accounted for; when it was last on its way to the journal;
  // and when their turns are to be looked at.
  MonotonicTime used_to;
  MonotonicTime use_saved;
  MonotonicTime turns_check = MonotonicTime::InfiniteFuture();
  // The changes that were asked for, oldest first; see audit.h.
  std::deque<AuditedRecord> audit;
  // By number, so in the order of submission; the queue is those QUEUED (IsAhead).
  std::map<int64_t, Job> jobs;
  // The numbers of the jobs that are neither queued nor ended.
  std::set<int64_t> active_jobs;
  // The first of the queue that lacks workers to begin, and could begin if no other job
  // had any; 0: there is none. Kept by scheduler.h.
  int64_t first_lacking = 0;
  // Until then no starts are foreseen.
  MonotonicTime predict_after;
  // When that job is overdue.
  MonotonicTime overdue_check = MonotonicTime::InfiniteFuture();
  // Set by Turn::ScheduleSoon.
  bool must_schedule = false;
  // The jobs that are being rebuilt, by id; they are not active, and no other
  // job begins meanwhile.
  std::map<std::string, Rebuilding, std::less<>> rebuildings;
  // Messages that were kept while a job was rebuilt, and may be handled now.
  std::deque<EventBody> kept_events;
  // Name of the worker of each session.
  std::unordered_map<SessionId, std::string> sessions;
  // The last worker's join_order, and the last ended job's end_order.
  uint64_t last_join_order = 0;
  uint64_t last_end_order = 0;
  // When the last event was taken in.
  MonotonicTime now;
  // Before this, no other event tells of an impostor.
  MonotonicTime next_impostor_event;
  // No quarantine ends, and no cordon is due, before.
  MonotonicTime quarantine_check = MonotonicTime::InfiniteFuture();
  MonotonicTime cordon_check = MonotonicTime::InfiniteFuture();
  std::optional<CommonSilence> common_silence;
  // The coordinator was held up, or cut off: until then, streams that end did so
  // because of that.
  MonotonicTime forgiving_until;
  // No lease runs out before.
  MonotonicTime lease_check = MonotonicTime::InfiniteFuture();

  // The job that a user means by an id or a name: the live job of that name, or
  // if there is none the newest that ended.
  //   NOT_FOUND/JOB_NOT_FOUND
  //   FAILED_PRECONDITION/JOB_AMBIGUOUS  lists the live jobs of that name
  [[nodiscard]] absl::StatusOr<const Job*> LookUpJob(
      std::string_view id_or_name) const;
  // The job with that id, or null. (A name may be the id of another job.)
  const Job* FindJob(std::string_view id) const;
  Job* FindJob(std::string_view id);
  // The active jobs, in the order of their submission. The pointers last: a job
  // is forgotten only once it has ended, at the end of a later one.
  [[nodiscard]] std::vector<const Job*> ActiveJobs() const;
  [[nodiscard]] std::vector<Job*> ActiveJobs();
  // The active job that `worker` is in, as a member or as one that was lost; or
  // null.
  const Job* JobOf(const Worker& worker) const;
  Job* JobOf(const Worker& worker);
  // The worker of that name or session, or null.
  const Worker* FindWorker(std::string_view name) const;
  Worker* FindWorker(std::string_view name);
  // The quarantine of that host in force for `job`, or null. One that makes it
  // unfit comes first.
  const HostQuarantine* QuarantineOf(const Job& job,
                                     std::string_view host_key) const;
  // The cordon of that worker or of its host, or null. One that drains comes
  // first, and of two that do the one that is due earlier.
  const Cordon* CordonOf(const Worker& worker) const;
  const Worker* FindSession(SessionId session) const;
  Worker* FindSession(SessionId session);
  // The same of one; 0 if it is not in the queue.
  int QueuePosition(const Job& job) const;
};

// Returns how many jobs are before each job of the queue, one that is active included.
// Those QUEUED are in it, but for the suspended.
[[nodiscard]] std::map<const Job*, int> QueuePositions(const State& state);

// Returns true if all jobs leave that host out, or an active one does.
[[nodiscard]] bool IsInForce(const State& state,
                             const HostQuarantine& quarantine);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_
